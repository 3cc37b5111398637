//! The programs as the manifests run them: their arguments and their memory limits.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::Value;

use crate::sidecar::{Sidecar, VERBOSE, bare, free_port};

/// Of each program the manifest with its container.
const FILES: [(&str, &str); 4] = [
    ("addon-lease-controller", "sidecar.yaml"),
    ("csr-bootstrapper", "deployment.yaml"),
    ("hub-kubeconfig-dumper", "sidecar.yaml"),
    ("remote-sync", "deployment.yaml"),
];

/// A program's container.
pub struct Container {
    program: String,
    args: Vec<String>,
    /// The limit, in KiB.
    memory: u64,
}

impl Container {
    /// That of the example in manifests/.
    pub fn of(program: &str) -> Self {
        let file = FILES.iter().find(|(name, _)| *name == program).expect("a program").1;
        let path = root().join("manifests").join(program).join(file);
        let text = fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        let deployment: Value = serde_yaml::from_str(&text).expect("YAML");
        let spec = &deployment["spec"]["template"]["spec"];
        let lists = ["containers", "initContainers"].map(|list| spec[list].as_array());
        let mut containers = lists.into_iter().flatten().flatten();
        let container = containers.find(|it| it["name"] == program).expect("its container");
        let args = container["args"].as_array().into_iter().flatten();
        let limit = container["resources"]["limits"]["memory"].as_str().expect("a limit");
        let mebibytes: u64 = limit.trim_end_matches("Mi").parse().expect("Mi");
        Self {
            program: program.to_owned(),
            args: args.map(|arg| arg.as_str().expect("a text").to_owned()).collect(),
            memory: mebibytes << 10,
        }
    }

    /// The program that is shipped, with the container's arguments; those in `here` have another value, as
    /// places have other names here.
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

    /// Starts it on a port of its own, as many run beside each other here.
    pub fn start(&self, mut command: Command) -> Sidecar {
        let port = free_port();
        command.args(VERBOSE).arg(format!("-metrics-port={port}"));
        Sidecar::spawn(command, port)
    }

    /// Checks that the process never needed more than three quarters of its limit.
    #[track_caller]
    pub fn fits(&self, sidecar: &Sidecar) {
        let (peak, most) = (sidecar.memory("VmHWM"), self.memory * 3 / 4);
        println!("{}: {peak} KiB at most, of {most}", self.program);
        assert!(peak > 0 && peak <= most, "{}: {peak} KiB, more than {most}", self.program);
    }
}

/// What users get: in `BIN_DIR`, else what `make dist` built.
pub fn shipped(program: &str) -> PathBuf {
    let directory = env::var_os("BIN_DIR").map_or_else(|| root().join("dist"), PathBuf::from);
    let path = directory.join(program);
    assert!(path.exists(), "{} is not there: make dist", path.display());
    path
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}
