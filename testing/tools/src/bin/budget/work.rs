//! klusterlet-agent: with one work, and with five more works of ten manifests.

use serde_json::json;
use suite::{
    pause,
    sidecar::Sidecar,
    work::{Stage, config_map},
};
use tools::measure::median;

use crate::{RUNS, table::Table};

/// Limits of resident memory, in KiB.
const ONE_WORK: f64 = 4608.0;
const FIVE_WORKS: f64 = 6144.0;

impl Table {
    /// Measures several agents, each with its own hub and cluster.
    pub(crate) fn work(&mut self) {
        let start = |_| {
            let stage = Stage::new();
            let agent = stage.start(&[]);
            stage.apply(&[config_map("a", "1")]);
            stage.wait_for_applied("w", "True");
            (stage, agent)
        };
        let agents: Vec<(Stage, Sidecar)> = (0..RUNS).map(start).collect();
        let resident =
            || median(agents.iter().map(|(_, agent)| agent.memory("VmRSS") as f64).collect());
        pause(2000);
        self.at_most("resident memory with one work", ONE_WORK, resident(), "KiB");
        for (stage, _) in &agents {
            for work in 0..5 {
                let manifest = |n| config_map(&format!("m{work}-{n}"), "1");
                let manifests: Vec<_> = (0..10).map(manifest).collect();
                stage.put_work(&format!("w{work}"), json!({"workload": {"manifests": manifests}}));
            }
            (0..5).for_each(|work| stage.wait_for_applied(&format!("w{work}"), "True"));
        }
        pause(2000);
        self.at_most("  with five more of ten manifests", FIVE_WORKS, resident(), "KiB");
        let requests = || -> usize {
            agents
                .iter()
                .map(|(stage, _)| stage.hub.requests().len() + stage.managed.requests().len())
                .sum()
        };
        let before = requests();
        pause(5000);
        self.at_most("requests in 5 s, besides watches", 0.0, (requests() - before) as f64, "");
        self.ends(agents);
    }
}
