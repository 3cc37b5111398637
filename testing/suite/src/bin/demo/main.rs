//! `make demo`: a cluster joins a hub, and its add-on's Lease lives through everything that goes wrong in
//! real life, on one screen.

mod addon;
mod agent;
mod end;
mod files;
mod stage;

use std::env;

use suite::term::{self, Timeline, bold};

use crate::{
    addon::Addon,
    agent::Agent,
    stage::{LIFETIME, PERIOD, Stage},
};

fn main() {
    term::fail_in_a_sentence();
    let stage = Stage::set();
    introduce();
    let timeline = Timeline::new(36);
    let mut agent = Agent::start(&stage, &timeline);
    agent.join(&timeline);
    let mut addon = Addon::start(&stage, &timeline);
    play(&timeline, &mut agent, &mut addon);
    let used = end::Used::by(&agent, &addon);
    if env::var("KEEP").is_ok_and(|keep| !keep.is_empty() && keep != "0") {
        end::hub_view(&stage);
        end::table(&agent, &addon, &used);
        end::keep(&stage, &mut agent, &mut addon);
    } else {
        timeline.step("SIGTERM to all three", || end::stopped(&mut agent, &mut addon));
        end::hub_view(&stage);
        end::table(&agent, &addon, &used);
        end::next_steps();
    }
}

fn introduce() {
    let name = |name: &str, what: &str| println!("  {name:<24}{what}");
    let headline = "A cluster joins an Open Cluster Management hub, and its add-on stays available";
    println!("{}", bold(headline));
    name(
        "csr-bootstrapper",
        "joins: a certificate for the hub into a Secret, the next one, heartbeats, add-ons",
    );
    name("hub-kubeconfig-dumper", "keeps what is in that Secret in files, for other programs");
    name(
        "addon-lease-controller",
        "renews a ready add-on's Lease, on the hub and where the add-on is",
    );
    println!(
        "The programs are real, hub and cluster are small API servers. Certificates live {} s, periods {} s.\n",
        LIFETIME.as_secs(),
        PERIOD.as_secs()
    );
}

/// What takes time comes before the certificate is due, 22 s after it was issued.
fn play(timeline: &Timeline, agent: &mut Agent, addon: &mut Addon) {
    timeline.step("A few periods pass", || addon.renewed(agent));
    timeline.step("The hub wants heartbeats more often", || agent.faster());
    timeline.step("The add-on's pod becomes unready", || addon.unready());
    timeline.step("Somebody deletes the Lease", || addon.deleted());
    timeline.step("The certificate grows old", || agent.renewed());
    timeline.step("Everybody goes on with the new one", || agent.goes_on(&mut addon.sidecar));
    timeline.step("The hub is gone: connections refused", || addon.hub_away(agent));
    timeline.step("The hub is back", || addon.hub_back(agent));
    timeline.step("The add-on is enabled on the hub", || addon.enabled());
}
