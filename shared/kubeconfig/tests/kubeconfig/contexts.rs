//! Contexts and entries.

use super::*;

#[test]
fn duplicate_names_are_rejected_even_if_unused() {
    for list in
        ["users: [{name: z}, {name: z}]", "clusters: [{}, {}]", "contexts: [{name: z}, {name: z}]"]
    {
        let kind = list.split(':').next().unwrap();
        let text = on_server("https://h").replacen(
            &format!("{kind}: ["),
            &format!("{}, ", list.trim_end_matches(']')),
            1,
        );
        rejected_with(text, &format!("has two {kind} named"));
    }
}

#[test]
fn only_entries_of_the_current_context_are_checked() {
    let unused = "users: [{name: z, user: {exec: {command: aws}, token: 1, client-key: nowhere}}, ";
    let access = accepted(with_user("token: t").replacen("users: [", unused, 1));
    assert_eq!(access.auth, token("t"));
}

#[test]
fn unknown_context_is_refused_and_missing_user_anonymous() {
    let text = with_user("token: t");
    rejected_with(
        text.replace("current-context: c", "current-context: zz"),
        "has no context \"zz\"",
    );
    assert_eq!(accepted(text.replace("user: u,", "user: zz,")).auth, Auth::None);
    assert_eq!(accepted(text.replace("user: {token: t}", "user: null")).auth, Auth::None);
    rejected_with(text.replace("cluster: k,", "cluster: zz,"), "has no configuration");
    rejected_with(text.replace("current-context: c\n", ""), "has no configuration");
    rejected_with(config("{tls-server-name: x}", "{}"), "cluster \"k\" has no server");
}
