//! The kubeconfig that a command names for the program's own cluster.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::Value;

/// Where it is.
pub(crate) fn of(command: &Command) -> PathBuf {
    let mut arguments = command.get_args().skip_while(|argument| *argument != "-kubeconfig");
    Path::new(arguments.nth(1).expect("a kubeconfig")).to_owned()
}

/// Writes a file beside it.
pub(crate) fn write(command: &Command, name: &str, content: &str) -> PathBuf {
    let path = of(command).with_file_name(name);
    fs::write(&path, content).expect("the file is written");
    path
}

pub(crate) fn change(command: &Command, change: impl FnOnce(&mut Value)) {
    let path = of(command);
    let text = fs::read_to_string(&path).expect("the kubeconfig");
    let mut config = serde_json::from_str(&text).expect("JSON");
    change(&mut config);
    fs::write(&path, config.to_string()).expect("the kubeconfig is written");
}
