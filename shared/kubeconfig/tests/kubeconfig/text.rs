//! Text: encodings, unknown fields, texts that are not a kubeconfig.

use super::*;

#[test]
fn yaml_json_bom_and_crlf_are_read() {
    let plain = on_server("https://h");
    let json = r#"{"current-context":"c","clusters":[{"name":"k","cluster":{"server":"https://h"}}],
        "contexts":[{"name":"c","context":{"cluster":"k","namespace":"\ud83d\ude00"}}]}"#;
    for text in [
        plain.clone(),
        plain.replace('\n', "\r\n"),
        format!("\u{feff}{plain}"),
        format!("---\n{plain}...\n"),
        json.to_owned(),
        format!("\u{feff}\n  {json}"),
        "{current-context: c, clusters: [{name: k, cluster: {server: 'https://h'}}], contexts: [{name: c, context: {cluster: k}}]}".into(),
    ] {
        assert_eq!(accepted(&text).server, "https://h", "{text}");
    }
}

#[test]
fn unknown_fields_and_numeric_keys_are_ignored() {
    let text = format!(
        "{}1: x\npreferences: {{}}\nextensions: []\nshoe-size: 43\n",
        with_cluster("disable-compression: true, x: [1]")
    );
    assert_eq!(accepted(text).namespace.as_deref(), Some("ns"));
}

#[test]
fn kind_and_version_may_be_absent_but_not_wrong() {
    let plain = on_server("https://h");
    accepted(plain.replace("apiVersion: v1\nkind: Config\n", ""));
    accepted(plain.replace("kind: Config\n", ""));
    rejected_with(plain.replace("kind: Config", "kind: Pod"), "its kind is not Config");
    rejected_with(plain.replace("apiVersion: v1", "apiVersion: v2"), "its apiVersion is not v1");
}

#[test]
fn an_empty_configuration_is_reported() {
    for text in ["", "\n \n", "# nothing\n", "null", "{}", "kind: Config", "users: null"] {
        rejected_with(text, "has no configuration");
    }
}

#[test]
fn text_that_is_not_a_kubeconfig_is_rejected() {
    let deep = "[".repeat(10_000);
    for (text, part) in [
        ("- a\n", "not a map"),
        ("hello", "not a map"),
        ("a: [", "is not YAML: line"),
        ("{\"a\": 1}}", "is not"),
        ("a: 1\n---\nb: 2\n", "one YAML document"),
        ("a\0b", "NUL"),
        (&deep, "is not YAML"),
        ("x: &a {as: joe}", "without tags, anchors"),
        ("x: *a", "is not"),
        ("users: {}", "users must be a list"),
        ("users: [{name: 1}]", "users must be a list"),
        ("users: [{name: a, user: text}]", "users must be a list"),
        ("current-context: 3", "current-context must be text"),
    ] {
        rejected_with(text, part);
    }
    rejected_with(b"\xff\xfea\0", "UTF-8");
}
