//! `make demo-sync`: a hub's objects also live on a cluster, through outages and an empty hub, on one screen.

mod end;
mod play;
mod stage;

use tools::{
    demo,
    term::{self, Timeline, bold},
};

use crate::{play::Play, stage::Stage};

fn main() {
    term::fail_in_a_sentence();
    let stage = Stage::set();
    introduce();
    let timeline = Timeline::new();
    let mut play = Play::begin(&stage, &timeline);
    play.live(&timeline);
    play.lose_the_hub(&timeline);
    play.delete(&timeline);
    if demo::is_kept() {
        end::table(&play.seen);
        end::keep(&stage, &mut play.sidecar);
    } else {
        timeline.step("SIGTERM", || end::stopped(&mut play.sidecar));
        end::table(&play.seen);
        end::next_steps();
    }
}

fn introduce() {
    let headline = "A hub's widgets live on a cluster: spec down, status and a Secret up";
    println!("{}", bold(headline));
    println!("  remote-sync             runs on the cluster; web-east on the hub is web here");
    println!(
        "The program is real, hub and cluster are small API servers. It probes twice a\n\
         second (10 s by default), and a copy whose source is gone would be deleted\n\
         after 1 s (5 min by default), if that were proven.\n"
    );
}
