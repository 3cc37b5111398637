//! remote-sync on the stage: its settings and its start.

use std::process::Command;

use dev_apiserver::Server;

use super::{Kind, Stage, rights};
use crate::real;
use crate::sidecar::{Sidecar, VERBOSE, bare, free_port, program};

/// Short waits, to suit a test. On a busy machine, an answer takes more than half a second.
pub const FAST: [&str; 6] = ["-probe-interval", "500ms", "-orphan-grace", "1s", "-timeout", "4s"];

/// The program's settings, and the names of the stage's objects for it.
#[derive(Clone, Debug)]
pub struct Setting {
    /// Whether the local cluster owns the spec.
    pub push: bool,
    pub kinds: Vec<&'static Kind>,
    /// The suffix of the sources' names.
    pub suffix: String,
    /// The suffix of the targets' namespaces.
    pub namespace_suffix: String,
    pub secrets: Vec<&'static str>,
}

impl Setting {
    /// Returns settings with the suffixes of upstream's tests.
    pub fn safe(kinds: &[&'static Kind]) -> Self {
        Self {
            push: false,
            kinds: kinds.to_vec(),
            suffix: "-remote-rs".into(),
            namespace_suffix: "-local-ns".into(),
            secrets: Vec::new(),
        }
    }

    /// Returns settings with the local cluster as the source of all remotes.
    pub fn push(kinds: &[&'static Kind]) -> Self {
        Self { push: true, suffix: "-{cluster}".into(), ..Self::safe(kinds) }
    }

    pub fn secrets(self, names: &[&'static str]) -> Self {
        Self { secrets: names.to_vec(), ..self }
    }

    /// Uses the same names on both sides.
    pub fn same_names(self) -> Self {
        Self { suffix: String::new(), namespace_suffix: String::new(), ..self }
    }

    pub(super) fn arguments(&self) -> Vec<String> {
        let mut all = vec![
            "-direction".into(),
            if self.push { "push" } else { "pull" }.into(),
            format!("-remote-resource-suffix={}", self.suffix),
            format!("-local-namespace-suffix={}", self.namespace_suffix),
            "-local-propagation-policy=Background".into(),
        ];
        all.extend(self.kinds.iter().map(|kind| format!("-resource={}", kind.flag())));
        all.extend(self.secrets.iter().map(|name| format!("-local-secret-name={name}")));
        all
    }
}

impl Stage {
    /// Returns the program's command with only the path to its local cluster.
    pub fn bare_command(&self) -> Command {
        let mut command = bare(&program("remote-sync"));
        let kubeconfig = self.write("own.kubeconfig", &self.own.kubeconfig());
        command.arg("-kubeconfig").arg(kubeconfig).args(["-namespace", &self.own.home]);
        command
    }

    /// Returns the program's command without its remotes; without an endpoint if the port is 0.
    pub fn command(&self, port: u16) -> Command {
        let mut command = self.bare_command();
        command
            .args(self.setting.arguments())
            .args(["-namespace-prefix", &self.namespace, "-leader-election=false"])
            .args(["-metrics-port", &port.to_string()])
            .args(VERBOSE)
            .args(FAST);
        command
    }

    /// Adds all remotes, each by a file.
    pub fn add_remotes(&self, command: &mut Command) {
        for side in &self.remotes {
            let file = self.write(&format!("{}.kubeconfig", side.name), &side.kubeconfig());
            command.args(["-remote-kubeconfig", &format!("{}={}", side.name, file.display())]);
        }
    }

    /// Starts it with `more` flags.
    pub fn start(&self, more: &[&str]) -> Sidecar {
        self.start_at(0, more)
    }

    /// Starts it with its endpoint, and `more` flags.
    pub fn start_served(&self, more: &[&str]) -> Sidecar {
        self.start_at(free_port(), more)
    }

    fn start_at(&self, port: u16, more: &[&str]) -> Sidecar {
        let mut command = self.command(port);
        self.add_remotes(&mut command);
        command.args(more);
        self.spawn(command, port)
    }

    /// From the next start on, embedded servers too grant the program only the rights that it prints for its flags.
    pub fn enforce_rbac(&self) {
        self.sides()
            .filter_map(|side| side.cluster.embedded.as_ref())
            .for_each(Server::enforce_rbac);
    }

    pub(super) fn spawn(&self, command: Command, port: u16) -> Sidecar {
        let is_enforced = |server: &Server| server.enforces_rbac();
        if real() || self.own.cluster.embedded.as_ref().is_some_and(is_enforced) {
            rights::grant(self, &command);
        }
        Sidecar::spawn(command, port)
    }

    /// Starts it after `change` to its command, which has no remotes yet.
    pub fn start_as(&self, change: impl FnOnce(&mut Command)) -> Sidecar {
        let port = free_port();
        let mut command = self.command(port);
        change(&mut command);
        self.spawn(command, port)
    }

    /// Runs it to its end; returns the exit code and the log.
    pub fn run(&self, more: &[&str]) -> (Option<i32>, String) {
        let mut sidecar = self.start(more);
        let status = sidecar.wait();
        (status.code(), sidecar.log())
    }
}
