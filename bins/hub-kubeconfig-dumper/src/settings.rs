//! Settings from the command line: the registration agent's flags and defaults, and this program's own.

use std::{path::PathBuf, time::Duration};

use hub_kubeconfig_dumper::{Modes, valid_key};
use kubeconfig::{Env, own_namespace};
use sidecar::{
    flag_rows,
    flags::{Flag, Flags, Invocation, NO_NAMESPACE, WAIT_TIMEOUT, common, object_name},
};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Settings {
    pub(crate) namespace: String,
    pub(crate) secret: String,
    pub(crate) directory: PathBuf,
    pub(crate) modes: Modes,
    /// The file for the flattened kubeconfig, if any.
    pub(crate) flattened: Option<String>,
    /// The time limit of `-once`, if set.
    pub(crate) once: Option<Duration>,
}

pub(crate) fn table() -> Vec<Flag> {
    let mut table = Vec::from(flag_rows! {
        ["Secret and files"]
        "dir-mode" String "" =>
            "Permissions of the directory, octal (default: unchanged, 0700 for a new one).";
        "file-mode" String "" =>
            "Permissions of the files, octal (default: the previous file's, 0600 for a new file).";
        "flattened-kubeconfig" String "" =>
            "File in the directory for a kubeconfig with certificate, key and CA inline; \"kubeconfig\" replaces the Secret's own (default: none).";
        "hub-kubeconfig-dir" String "/spoke/hub-kubeconfig" =>
            "Directory for the files, one per key of the Secret.";
        "hub-kubeconfig-secret" String "hub-kubeconfig-secret" =>
            "Secret with the hub kubeconfig, in the program's namespace.";

        ["Single run"]
        "once" Bool "false" => "Write the files and exit, for an init container.";
    });
    table.extend(WAIT_TIMEOUT);
    // Each program has its own port: they may share a pod.
    table.extend(common("8386"));
    table
}

impl Settings {
    pub(crate) fn new(flags: &Flags) -> Result<Invocation<Self>, String> {
        Self::check(flags, own_namespace(flags.some("namespace"), &Env::process()))
            .map(Invocation::Run)
    }

    fn check(flags: &Flags, namespace: Option<String>) -> Result<Self, String> {
        let namespace = namespace.ok_or(NO_NAMESPACE)?;
        let secret = flags.required("hub-kubeconfig-secret")?;
        let secret = object_name("-hub-kubeconfig-secret", secret)?;
        let namespace = object_name("the namespace", namespace)?;
        let flattened = flags.some("flattened-kubeconfig").map(str::to_owned);
        if let Some(name) = flattened.as_ref().filter(|name| !valid_key(name)) {
            return Err(format!("-flattened-kubeconfig {name:?} is not a file name for a Secret"));
        }
        Ok(Self {
            namespace,
            secret,
            directory: flags.required("hub-kubeconfig-dir")?.into(),
            modes: Modes {
                directory: mode(flags, "dir-mode", 0o700)?,
                file: mode(flags, "file-mode", 0o400)?,
            },
            flattened,
            once: flags.once()?,
        })
    }
}

/// A file mode; `least` has the bits that this program needs.
fn mode(flags: &Flags, name: &str, least: u32) -> Result<Option<u32>, String> {
    let Some(text) = flags.some(name) else { return Ok(None) };
    match u32::from_str_radix(text, 8) {
        Ok(mode) if mode <= 0o777 && mode & least == least => Ok(Some(mode)),
        _ => Err(format!(
            "-{name} must be octal, up to 0777 and with the bits of {least:04o}, got {text:?}"
        )),
    }
}

#[cfg(test)]
mod tests {
    use sidecar::flags::{Invocation, parse};

    use super::*;

    fn settings(line: &str) -> Result<Settings, String> {
        let arguments = line.split_whitespace().map(Into::into);
        let Invocation::Run(flags) = parse("x", &table(), arguments)? else { panic!("help") };
        Settings::check(&flags, flags.some("namespace").or(Some("agent")).map(str::to_owned))
    }

    #[test]
    fn defaults_are_those_of_the_registration_agent() {
        let settings = settings("").unwrap();
        let expected = Settings {
            namespace: "agent".into(),
            secret: "hub-kubeconfig-secret".into(),
            directory: "/spoke/hub-kubeconfig".into(),
            modes: Modes::default(),
            flattened: None,
            once: None,
        };
        assert_eq!(settings, expected);
    }

    #[test]
    fn modes_are_octal_and_leave_the_program_its_own_rights() {
        let modes = |line: &str| settings(line).map(|settings| settings.modes);
        let expected = Modes { directory: Some(0o750), file: Some(0o440) };
        assert_eq!(modes("-dir-mode 0750 -file-mode 440"), Ok(expected));
        for (line, sentence) in [
            ("-dir-mode 0600", "-dir-mode must be octal, up to 0777 and with the bits of 0700"),
            ("-file-mode 0040", "-file-mode must be octal, up to 0777 and with the bits of 0400"),
            ("-file-mode 4600", "-file-mode must be octal"),
            ("-file-mode 0x1ff", "-file-mode must be octal"),
            ("-dir-mode u=rwx", "-dir-mode must be octal"),
        ] {
            let refusal = modes(line).unwrap_err();
            assert!(refusal.starts_with(sentence), "{line}: {refusal}");
        }
    }

    #[test]
    fn once_has_a_deadline_that_may_be_nothing() {
        let once = |line: &str| settings(line).map(|settings| settings.once);
        assert_eq!(once("-once"), Ok(Some(Duration::from_secs(86_400))));
        assert_eq!(once("-once -wait-timeout 0"), Ok(Some(Duration::ZERO)));
        assert_eq!(once("-once -wait-timeout 90"), Ok(Some(Duration::from_secs(90))));
        assert_eq!(once("-wait-timeout 90"), Err("-wait-timeout belongs to -once".into()));
        assert_eq!(once("-once -wait-timeout 90s"), Ok(Some(Duration::from_secs(90))));
    }

    #[test]
    fn unusable_settings_are_refused_with_a_reason() {
        for (line, sentence) in [
            ("-hub-kubeconfig-secret ../x", "-hub-kubeconfig-secret \"../x\" is not a valid"),
            ("-hub-kubeconfig-secret=", "-hub-kubeconfig-secret is required"),
            ("-hub-kubeconfig-dir=", "-hub-kubeconfig-dir is required"),
            ("-namespace A", "the namespace \"A\" is not a valid object name"),
            ("-flattened-kubeconfig ../x", "-flattened-kubeconfig \"../x\" is not a file name"),
        ] {
            let refusal = settings(line).unwrap_err();
            assert!(refusal.starts_with(sentence), "{line}: {refusal}");
        }
    }

    #[test]
    fn the_readme_shows_the_flags_as_they_are() {
        let help = sidecar::flags::help("hub-kubeconfig-dumper", &table());
        let block =
            format!("<!-- flags:hub-kubeconfig-dumper -->\n```text\n{help}```\n<!-- end -->");
        assert!(
            include_str!("../REFERENCE.md").contains(&block),
            "REFERENCE.md should hold\n{block}"
        );
    }
}
