//! The programs as in the manifests: their arguments and their memory limits.

use std::{env, path::PathBuf, process::Command};

use crate::{
    dumper,
    repository::{objects, root},
    scene,
    sidecar::{Sidecar, VERBOSE, bare, free_port},
};

/// For each program, the manifest with its container, and the container's path in it.
const FILES: [(&str, &str, &str); 4] = [
    ("addon-lease-controller", "components/addon-lease-controller/container.yaml", "/0/value"),
    ("csr-bootstrapper", "csr-bootstrapper/deployment.yaml", "/spec/template/spec/containers/0"),
    (
        "hub-kubeconfig-dumper",
        "components/hub-kubeconfig-dumper/sidecar.yaml",
        "/spec/template/spec/initContainers/0",
    ),
    ("remote-sync", "remote-sync/deployment.yaml", "/spec/template/spec/containers/0"),
];

/// The container variables that components fill, with the values of the suite's stages.
const VARIABLES: [(&str, &str); 2] = [("$(ADDON)", scene::ADDON), ("$(SECRET)", dumper::SECRET)];

/// A program's container.
pub struct Container {
    program: String,
    args: Vec<String>,
    /// The memory limit, in KiB.
    memory: u64,
}

impl Container {
    /// Reads the program's container from manifests/.
    pub fn of(program: &str) -> Self {
        let (_, file, place) = FILES.iter().find(|(name, ..)| *name == program).expect("a program");
        let manifest = objects(file, &[]).remove(0);
        let container = manifest.pointer(place).expect("a container");
        assert_eq!(container["name"], program, "{file}");
        let args = container["args"].as_array().into_iter().flatten();
        let args = args.map(|arg| {
            let arg = arg.as_str().expect("a text").to_owned();
            VARIABLES.iter().fold(arg, |arg, (variable, value)| arg.replace(variable, value))
        });
        let limit = container["resources"]["limits"]["memory"].as_str().expect("a limit");
        let mebibytes: u64 = limit.trim_end_matches("Mi").parse().expect("Mi");
        Self { program: program.to_owned(), args: args.collect(), memory: mebibytes << 10 }
    }

    /// Returns the shipped program's command with the container's arguments; `here` replaces values, such as paths,
    /// that differ in tests.
    pub fn command(&self, here: &[(&str, &str)]) -> Command {
        let mut command = bare(&shipped(&self.program));
        for arg in &self.args {
            let value = here.iter().find(|(flag, _)| arg.starts_with(&format!("-{flag}=")));
            match value {
                Some((flag, value)) => command.arg(format!("-{flag}={value}")),
                None => command.arg(arg),
            };
        }
        command
    }

    /// Starts it on a separate port, because many run side by side.
    pub fn start(&self, mut command: Command) -> Sidecar {
        let port = free_port();
        command.args(VERBOSE).arg(format!("-metrics-port={port}"));
        Sidecar::spawn(command, port)
    }

    /// Checks that the process never used more than three quarters of its limit.
    #[track_caller]
    pub fn fits(&self, sidecar: &Sidecar) {
        let (peak, most) = (sidecar.memory("VmHWM"), self.memory * 3 / 4);
        println!("{}: {peak} KiB at most, of {most}", self.program);
        assert!(peak > 0 && peak <= most, "{}: {peak} KiB, more than {most}", self.program);
    }
}

/// Returns the shipped program: from `BIN_DIR`, else as built by `make dist`.
pub fn shipped(program: &str) -> PathBuf {
    let directory = env::var_os("BIN_DIR").map_or_else(|| root().join("dist"), PathBuf::from);
    let path = directory.join(program);
    assert!(path.exists(), "{} is not there: make dist", path.display());
    path
}
