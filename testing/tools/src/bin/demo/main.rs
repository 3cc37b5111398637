//! `make demo`: a cluster joins a hub, its add-on becomes available, and objects come from the hub. All of it survives
//! what goes wrong in real life, on one screen of 80 columns.

mod addon;
mod agent;
mod end;
mod files;
mod stage;
mod sync;

use tools::{
    demo,
    term::{self, Timeline, bold},
};

use crate::{
    addon::Addon,
    agent::Agent,
    stage::{LIFETIME, PERIOD, Stage},
    sync::Sync,
};

fn main() {
    term::fail_in_a_sentence();
    let stage = Stage::set();
    introduce();
    let timeline = Timeline::new();
    let mut agent = Agent::start(&stage, &timeline);
    agent.join(&timeline);
    let mut addon = Addon::start(&stage, &timeline);
    play(&timeline, &mut agent, &mut addon);
    let mut sync = Sync::start(&stage, &timeline);
    timeline.step("The hub has a widget for it", || sync.copied());
    let used = end::Used::by(&agent, &addon, &sync);
    if demo::is_kept() {
        end::hub_view(&stage);
        end::table(&agent, &addon, &used);
        end::keep(&stage, &mut agent, &mut addon, &mut sync);
    } else {
        timeline.step("SIGTERM to all four", || end::stopped(&mut agent, &mut addon, &mut sync));
        end::hub_view(&stage);
        end::table(&agent, &addon, &used);
        end::next_steps();
    }
}

fn introduce() {
    let name = |name: &str, what: &str| println!("  {name:<24}{what}");
    let headline = "A cluster joins an Open Cluster Management hub, and stays joined";
    println!("{}", bold(headline));
    name("csr-bootstrapper", "gets a certificate for the hub, sends heartbeats");
    name("hub-kubeconfig-dumper", "writes the credential to files, as one set");
    name("addon-lease-controller", "renews an add-on's Lease while it is ready");
    name("remote-sync", "copies objects from the hub, and their status back");
    println!(
        "The programs are real, hub and cluster are small API servers.\n\
         Certificates live {} s here, and all periods are {} s.\n",
        LIFETIME.as_secs(),
        PERIOD.as_secs()
    );
}

/// Slow steps come before the certificate is due, 22 s after it was issued.
fn play(timeline: &Timeline, agent: &mut Agent, addon: &mut Addon) {
    timeline.step("A few periods pass", || addon.renewed(agent));
    timeline.step("The hub wants more heartbeats", || agent.faster());
    timeline.step("The add-on's pod is not ready", || addon.unready());
    timeline.step("Somebody deletes the Lease", || addon.deleted());
    timeline.step("The certificate grows old", || agent.renewed());
    timeline.step("All go on with the new one", || agent.goes_on(&mut addon.sidecar));
    timeline.step("The hub is gone", || addon.hub_away(agent));
    timeline.step("The hub is back", || addon.hub_back(agent));
    timeline.step("The hub enables the add-on", || addon.enabled());
}
