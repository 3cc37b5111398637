//! Disturbances of the servers, and their ends.

use std::{
    fs,
    time::{Duration, Instant},
};

use dev_apiserver::{Action, Rule};
use serde_json::Value;

use super::Scene;
use crate::chaos::{
    config::Feature,
    faults::faults,
    operations::Operation,
    start::{identity, show, without_extra},
};
use suite::{
    real,
    relay::Way,
    sync::{Side, WIDGETS, any_content, reshape},
};

/// How wrong a clock is, in days.
const WRONG: i64 = 400;

impl Scene {
    /// Applies the operation of this number to a server or the program. On real servers, only connections and the
    /// program can be disturbed.
    pub fn disturb(&mut self, number: usize, operation: Operation) {
        if real() && !operation.is_of_way() {
            return;
        }
        let until = |length: u64| Some(number + length as usize);
        match operation {
            Operation::Silence(server, length) => {
                let (index, side) = self.side(server);
                side.relay.set(Way::Silent);
                self.silent.insert(index);
                self.mends[index] = until(length);
            }
            Operation::Refuse(server, length) => {
                let (index, side) = self.side(server);
                side.relay.set(Way::Closed);
                self.mends[index] = until(length);
            }
            Operation::Cut(server) => self.side(server).1.relay.cut(),
            Operation::Fault { server, fault, length } => {
                let all = faults();
                let chosen = all[fault as usize % all.len()].clone();
                self.refuses |= chosen.is_refusal();
                let (index, side) = self.side(server);
                let is_silent = chosen.action == Action::WatchSilent;
                let mut rule = Rule::new(chosen.action).user(&side.user()).probability(0.4, fault);
                rule.verb = chosen.verb.map(str::to_owned);
                // Without permission to read a cluster's identity, the program would make copies without a mark.
                rule.resource = (chosen.verb == Some("get")).then(|| "widgets".to_owned());
                side.cluster.faults().add(rule);
                if is_silent {
                    side.relay.cut();
                    self.silent.insert(index);
                }
                self.mends[index] = until(length);
            }
            Operation::Clock { server, ahead, length } => {
                let (index, side) = self.side(server);
                let days = if ahead { WRONG } else { -WRONG };
                side.cluster.faults().set_date_offset(days * 24 * 3600);
                self.mends[index] = until(length);
            }
            Operation::Compact(server) => {
                let side = self.side(server).1;
                side.cluster.server().compact();
                side.relay.cut();
            }
            Operation::Rotate { server, gap } => {
                let (index, side) = self.side(server);
                self.revoke(side, gap == 0);
                if gap > 0 {
                    self.rotations[index] = until(gap);
                }
            }
            Operation::Upgrade { server, drops } => self.upgrade(server, drops),
            Operation::Clone(length) => self.clone_identity(number + length as usize),
            Operation::Kill(moment) => self.kill(moment),
            _ => unreachable!("it is about a pair"),
        }
    }

    /// Gives a server of targets another schema of widgets.
    fn upgrade(&mut self, server: u64, drops: bool) {
        let (index, side) = self.side(server);
        if !self.has(Feature::Schemas) || !self.is_of_targets(index) {
            return;
        }
        let schema = if drops { without_extra() } else { any_content() };
        reshape(&side.cluster, &WIDGETS, &schema);
    }

    /// Makes the second remote show the first one's uid, like a clone.
    fn clone_identity(&mut self, until: usize) {
        let [first, second, ..] = &*self.stage.remotes else { return };
        if !self.config.contains(&Feature::Clones) || self.clone.is_some() {
            return;
        }
        let own = identity(&second.cluster);
        show(second, &identity(&first.cluster));
        self.clone = Some((until, own));
        self.refuses = true;
    }

    fn end_clone(&mut self, number: usize) {
        if let Some((_, own)) = self.clone.take_if(|(until, _)| *until <= number) {
            show(&self.stage.remotes[1], &own);
        }
    }

    /// Ends watches after a restore: a watch from a future version stays silent until its time-out, for minutes.
    pub fn end_silent_watches(&mut self) {
        let Some((side, at)) = self.restored else { return };
        if at.elapsed() > Duration::from_secs(2) {
            self.sides()[side].relay.cut();
            self.restored = Some((side, Instant::now()));
        }
    }

    /// Ends the disturbances that are over by the operation of this number.
    pub fn mend(&mut self, number: usize) {
        self.end_clone(number);
        for index in 0..self.mends.len() {
            if self.mends[index].is_some_and(|until| until <= number) {
                self.mends[index] = None;
                // The relay drops bytes that TCP would resend, and a silent watch never recovers: connect anew.
                let was_silent = self.silent.remove(&index);
                let side = self.sides()[index];
                if was_silent {
                    side.relay.cut();
                }
                side.cluster.embedded.iter().for_each(|server| server.faults().heal());
                side.relay.set(Way::Open);
            }
            if self.rotations[index].is_some_and(|until| until <= number) {
                self.rotations[index] = None;
                let side = self.sides()[index];
                self.stage.write(&file(side), &side.kubeconfig());
            }
        }
    }

    /// Revokes the program's token for a server; `at_once` writes another one to its file first.
    fn revoke(&self, side: &Side, at_once: bool) {
        let path = self.stage.directory.path().join(file(side));
        let text = fs::read_to_string(path).expect("the kubeconfig");
        let config: Value = serde_json::from_str(&text).expect("JSON");
        let token = config["users"][0]["user"]["token"].as_str().expect("a token");
        if at_once {
            self.stage.write(&file(side), &side.kubeconfig());
        }
        side.cluster.server().revoke(token);
    }
}

/// Returns the file name of a side's kubeconfig on the stage.
fn file(side: &Side) -> String {
    let name = if side.name.is_empty() { "own" } else { &side.name };
    format!("{name}.kubeconfig")
}
