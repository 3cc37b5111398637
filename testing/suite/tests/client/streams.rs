//! One stream of a watch: lists in pages, and the events when one breaks off.

use std::ops::ControlFlow;

use apiclient::{
    client::{Client, Patch, Reload, Timeouts},
    error::Error,
    json::Document,
    resource::{LEASES, Resource, Target},
    stop::Stop,
    watch::{Event, Selection, Watcher},
};
use dev_apiserver::{Action, Rule, Server};
use serde_json::json;
use suite::faults::answer;

use crate::{access, body, client, lease, server};

fn selection(target: Target<'_>) -> Selection<'_> {
    Selection { page: 2, ..Selection::all(target) }
}

fn filled(names: &[&str]) -> (Server, Client) {
    let (server, admin) = server();
    let admin = client(admin);
    for name in names {
        admin.create(&lease(name), &body(name)).unwrap();
    }
    (server, admin)
}

fn follower(server: &Server) -> Client {
    let timing = Timeouts { silence: std::time::Duration::from_millis(1200), ..crate::timing() };
    Client::new("the hub", access(server, "follower"), Reload::Never, timing).unwrap()
}

/// Runs `stream` until `end` was told: `(` or `((` for a list that begins, `)` for its end, `~` for a
/// watch, a name, `+name`, `-name`, or `!` for a failure.
fn run(
    stream: &mut Watcher,
    client: &Client,
    selection: &Selection<'_>,
    end: &str,
    on: &dyn Fn(&str),
) -> Vec<String> {
    let mut told = Vec::new();
    stream.run(client, selection, &Stop::default(), &mut |step| {
        let word = word(&step);
        on(&word);
        let over = word == end;
        told.push(word);
        if over { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    told
}

fn word(step: &Event<'_>) -> String {
    match step {
        Event::Init { rewound: false } => "(".into(),
        Event::Init { rewound: true } => "((".into(),
        Event::InitApply(object) => object.name().to_owned(),
        Event::InitDone => ")".into(),
        Event::Watching => "~".into(),
        Event::Apply(object) => format!("+{}", object.name()),
        Event::Delete(object) => format!("-{}", object.name()),
        Event::Failed(_) => "!".into(),
    }
}

fn asked(server: &Server, verb: &str) -> Vec<String> {
    let followers = server.requests().into_iter().filter(|request| request.user == "follower");
    followers.filter(|request| request.verb == verb).map(|request| request.query).collect()
}

#[test]
fn list_is_read_in_pages_and_a_later_run_resumes() {
    let (server, admin) = filled(&["a", "b", "c", "d", "e"]);
    let (mut stream, client) = (Watcher::default(), follower(&server));
    let all = selection(LEASES.collection("default"));
    let told = run(&mut stream, &client, &all, "~", &|_| {});
    assert_eq!(told, ["(", "a", "b", "c", "d", "e", ")", "~"]);
    let lists = asked(&server, "list");
    assert_eq!(lists.len(), 3, "{lists:?}");
    assert_eq!(lists[0], "limit=2");
    assert!(lists[1].starts_with("limit=2&continue="), "{lists:?}");
    // What happens between two runs is told by the next, though on another connection.
    admin.create(&lease("f"), &body("f")).unwrap();
    let told = run(&mut stream, &follower(&server), &all, "+f", &|_| {});
    assert_eq!((told, asked(&server, "list").len()), (vec!["~".into(), "+f".into()], 3));
    stream.reset();
    assert_eq!(run(&mut stream, &client, &all, "a", &|_| {}), ["((", "a"]);
    assert_eq!(run(&mut stream, &client, &all, "b", &|_| {}), ["((", "a", "b"], "not completed");
}

#[test]
fn expired_page_begins_the_list_again() {
    let (server, admin) = filled(&["a", "b", "c"]);
    let (mut stream, client) = (Watcher::default(), follower(&server));
    let all = selection(LEASES.collection("default"));
    let told = run(&mut stream, &client, &all, ")", &|word| {
        if word == "b" && admin.create(&lease("d"), &body("d")).is_ok() {
            server.compact();
        }
    });
    assert_eq!(told, ["(", "a", "b", "!", "(", "a", "b", "c", "d", ")"]);
    let lists = asked(&server, "list");
    assert!(lists[1].contains("continue=") && !lists[2].contains("resourceVersion="), "{lists:?}");
}

/// The time limit is for the server and the way to it.
#[test]
fn slow_consumer_of_a_page_gets_all_of_it() {
    let (server, admin) = server();
    let admin = client(admin);
    let names: Vec<String> = (0..60).map(|number| format!("n{number:02}")).collect();
    for name in &names {
        let mut body = body(name);
        body["metadata"]["annotations"] = json!({"note": "x".repeat(4000)});
        admin.create(&lease(name), &body).unwrap();
    }
    let timing = Timeouts { request: std::time::Duration::from_millis(400), ..crate::timing() };
    let client =
        Client::new("the hub", access(&server, "follower"), Reload::Never, timing).unwrap();
    let all = Selection::all(LEASES.collection("default"));
    let told = run(&mut Watcher::default(), &client, &all, ")", &|_| suite::pause(20));
    assert_eq!((told.len(), &*told[0]), (62, "("), "{told:?}");
}

#[test]
fn broken_page_completes_no_list() {
    for action in [Action::Truncate, Action::Drop, Action::NotJson, Action::WrongKind] {
        let (server, _) = filled(&["a", "b", "c"]);
        let (mut stream, client) = (Watcher::default(), follower(&server));
        let all = selection(LEASES.collection("default"));
        let told = run(&mut stream, &client, &all, ")", &|word| {
            if word == "b" && asked(&server, "list").len() == 1 {
                server.faults().add(Rule::new(action.clone()).verb("list").times(2));
            }
        });
        let ends = told.iter().rposition(|word| word == "(").unwrap();
        assert_eq!(told[ends..], ["(", "a", "b", "c", ")"], "{action:?}");
        assert!(told.contains(&"!".into()), "{action:?}: {told:?}");
    }
}

#[test]
fn list_after_silence_finds_a_server_that_went_back() {
    let (server, _) = filled(&["a", "b", "c"]);
    let (mut stream, client) = (Watcher::default(), follower(&server));
    let all = selection(LEASES.collection("default"));
    server.faults().add(Rule::new(Action::WatchSilent).verb("watch").times(1));
    let told = run(&mut stream, &client, &all, "~", &|_| {});
    assert_eq!(told, ["(", "a", "b", "c", ")", "~"]);
    let status = json!({"kind": "Status", "status": "Failure", "reason": "Timeout", "code": 504,
        "message": "Too large resource version", "details": {"causes": [
            {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}]}});
    let future = answer(504, status);
    server.faults().add(Rule::new(Action::WatchSilent).verb("watch").times(1));
    server.faults().add(Rule::new(future).verb("list").times(1));
    let told = run(&mut stream, &client, &all, ")", &|_| {});
    assert_eq!(told, ["~", "!", "((", "a", "b", "c", ")"]);
    let lists = asked(&server, "list");
    assert!(lists[2].starts_with("limit=2&resourceVersion="), "{lists:?}");
    assert!(lists[2].ends_with("&resourceVersionMatch=NotOlderThan"), "{lists:?}");
    assert_eq!(lists[3], "limit=2");
}

#[test]
fn list_after_a_lost_connection_finds_a_restored_server() {
    let (server, admin) = filled(&["a", "b"]);
    let (mut stream, client) = (Watcher::default(), follower(&server));
    let all = selection(LEASES.collection("default"));
    let backup = server.backup();
    admin.create(&lease("c"), &body("c")).unwrap();
    assert_eq!(run(&mut stream, &client, &all, "~", &|_| {}), ["(", "a", "b", "c", ")", "~"]);
    // One that is refused is lost, too.
    server.faults().deny("watch", "leases", "default");
    assert_eq!(run(&mut stream, &client, &all, ")", &|_| {}), ["!", "(", "a", "b", "c", ")"]);
    server.restore(&backup);
    assert_eq!(run(&mut stream, &client, &all, ")", &|_| {}), ["!", "!", "((", "a", "b", ")"]);
}

#[test]
fn selection_by_labels_may_be_of_metadata_alone() {
    let (server, admin) = filled(&["a", "b"]);
    let label = |name: &str, value: serde_json::Value| {
        let patch = json!({"metadata": {"labels": {"on": value}}});
        admin.patch(&lease(name), Patch::Merge, &patch).unwrap();
    };
    label("a", json!("1"));
    let (mut stream, client) = (Watcher::default(), follower(&server));
    let all = Selection { labels: "on=1", metadata_only: true, ..selection(LEASES.everywhere()) };
    let mut told = Vec::new();
    stream.run(&client, &all, &Stop::default(), &mut |step| {
        told.push(word(&step));
        match step {
            Event::Watching => label("b", json!("1")),
            Event::Apply(_) => label("b", json!(null)),
            Event::Delete(_) => return ControlFlow::Break(()),
            _ => {}
        }
        if let Event::InitApply(Document::Whole(object)) | Event::Apply(Document::Whole(object)) =
            step
        {
            assert_eq!(
                (&object["kind"], object.get("spec")),
                (&json!("PartialObjectMetadata"), None)
            );
        }
        ControlFlow::Continue(())
    });
    assert_eq!(told, ["(", "a", ")", "~", "+b", "-b"]);
}

#[test]
fn watch_of_an_unserved_kind_reports_it_and_may_end() {
    let (server, _) = server();
    let unknown = Resource { plural: "nothings".into(), ..LEASES.clone() };
    let (client, mut errors) = (follower(&server), Vec::new());
    let all = selection(unknown.everywhere());
    Watcher::default().run(&client, &all, &Stop::default(), &mut |step| {
        if let Event::Failed(error) = step {
            errors.push(error.clone());
        }
        ControlFlow::Break(())
    });
    assert!(matches!(&errors[..], [Error::NotServed(_)]), "{errors:?}");
}
