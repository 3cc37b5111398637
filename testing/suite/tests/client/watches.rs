//! A watch that follows a collection through everything that ends one.

use std::{
    ops::ControlFlow,
    sync::{Arc, Mutex},
    thread,
};

use apiclient::{
    client::{Client, Propagation, Reload, Timeouts},
    resource::{LEASES, Target},
    stop::Stop,
    watch::{Event, Selection, Watcher},
};
use dev_apiserver::{Action, Options, Rule, Server};
use serde_json::json;
use suite::{eventually, faults::code, within};

use crate::{access, body, client, lease, server};

/// A follower in a thread, and what it was told: `=names`, `+name`, `-name`.
struct Follower {
    told: Arc<Mutex<Vec<String>>>,
    stop: Stop,
    client: Client,
    thread: Option<thread::JoinHandle<()>>,
    end: kubeconfig::config::ClusterConfig,
}

impl Follower {
    fn start(server: &Server, target: Target<'static>) -> Self {
        Self::patient(server, target, crate::timing())
    }

    fn patient(server: &Server, target: Target<'static>, timing: Timeouts) -> Self {
        let client = Client::new("the hub", access(server, "follower"), Reload::Never, timing);
        let client = client.unwrap();
        let (told, stop) = (Arc::new(Mutex::new(Vec::new())), Stop::default());
        let (sink, ended, follower) = (told.clone(), stop.clone(), client.clone());
        let thread = thread::spawn(move || {
            let mut listed = Vec::new();
            Watcher::default().run(&follower, &Selection::all(target), &ended, &mut |step| {
                if let Some(word) = word(&step, &mut listed) {
                    sink.lock().unwrap().push(word);
                }
                ControlFlow::Continue(())
            });
        });
        Self { told, stop, client, thread: Some(thread), end: access(server, "end") }
    }

    #[track_caller]
    fn wait_for(&self, word: &str) {
        eventually(word, || self.told.lock().unwrap().iter().any(|told| told == word));
    }

    fn count(&self, prefix: &str) -> usize {
        self.told.lock().unwrap().iter().filter(|told| told.starts_with(prefix)).count()
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.stop.raise();
        let _ = self.client.swap(self.end.clone());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn remove(admin: &Client, name: &str) {
    admin.delete(&lease(name), Propagation::Background, &Default::default()).unwrap();
}

/// What a step says of the collection; `listed` are the names of the list that has begun.
fn word(step: &Event<'_>, listed: &mut Vec<String>) -> Option<String> {
    match step {
        Event::Init { .. } => listed.clear(),
        Event::InitApply(item) => listed.push(item.name().to_owned()),
        Event::InitDone => return Some(format!("={}", listed.join(","))),
        Event::Apply(object) => return Some(format!("+{}", object.name())),
        Event::Delete(object) => return Some(format!("-{}", object.name())),
        Event::Watching | Event::Failed(_) => {}
    }
    None
}

fn verbs(server: &Server, verb: &str) -> usize {
    let followers = server.requests().into_iter().filter(|request| request.user == "follower");
    followers.filter(|request| request.verb == verb).count()
}

#[test]
fn collection_is_listed_once_and_then_watched() {
    let (server, admin) = server();
    let admin = client(admin);
    admin.create(&lease("a"), &body("a")).unwrap();
    let follower = Follower::start(&server, LEASES.collection("default"));
    follower.wait_for("=a");
    admin.create(&lease("b"), &body("b")).unwrap();
    follower.wait_for("+b");
    remove(&admin, "a");
    follower.wait_for("-a");
    assert_eq!((verbs(&server, "list"), verbs(&server, "watch")), (1, 1));
}

#[test]
fn single_object_is_followed_by_a_field_selector() {
    let (server, admin) = server();
    let admin = client(admin);
    let follower = Follower::start(&server, LEASES.object("default", "x"));
    follower.wait_for("=");
    admin.create(&lease("other"), &body("other")).unwrap();
    admin.create(&lease("x"), &body("x")).unwrap();
    follower.wait_for("+x");
    assert_eq!(follower.count("+other"), 0);
    let selected = |query: &str| query.contains("fieldSelector=metadata.name%3Dx");
    let asked = server.requests().into_iter().filter(|request| request.user == "follower");
    assert!(asked.into_iter().all(|request| selected(&request.query)));
}

/// Whoever stops a watch closes its client, which cannot end a connection that is made only then.
#[test]
fn watch_that_opens_while_it_is_stopped_ends() {
    let (server, _admin) = server();
    server.faults().add(Rule::new(Action::Delay { milliseconds: 500 }).verb("watch"));
    let mut follower = Follower::start(&server, LEASES.collection("default"));
    eventually("the watch", || verbs(&server, "watch") == 1);
    follower.stop.raise();
    let thread = follower.thread.take().unwrap();
    eventually("it ends", || thread.is_finished());
}

#[test]
fn cut_watch_resumes_where_it_was() {
    let (server, admin) = server();
    let admin = client(admin);
    server.faults().add(Rule::new(Action::WatchCut { events: 1 }).verb("watch").times(1));
    let follower = Follower::start(&server, LEASES.collection("default"));
    follower.wait_for("=");
    for name in ["a", "b", "c"] {
        admin.create(&lease(name), &body(name)).unwrap();
    }
    for word in ["+a", "+b", "+c"] {
        follower.wait_for(word);
    }
    assert_eq!(verbs(&server, "list"), 1);
    assert_eq!(follower.count("+"), 3, "nothing is told twice");
}

#[test]
fn expired_version_leads_to_a_new_list() {
    let (server, admin) = server();
    let admin = client(admin);
    admin.create(&lease("a"), &body("a")).unwrap();
    let follower = Follower::start(&server, LEASES.collection("default"));
    follower.wait_for("=a");
    eventually("the watch", || verbs(&server, "watch") == 1);
    server.faults().set_state(dev_apiserver::State::Refuse);
    // What happens meanwhile is found by the list alone.
    server.compact();
    server.faults().heal();
    remove(&admin, "a");
    server.compact();
    follower.wait_for("=");
}

#[test]
fn failure_is_never_reported_as_an_absence() {
    let (server, admin) = server();
    client(admin).create(&lease("a"), &body("a")).unwrap();
    let faults = server.faults();
    faults.add(Rule::new(code(500)).verb("list").times(2));
    faults.deny("watch", "leases", "default");
    let follower = Follower::start(&server, LEASES.collection("default"));
    follower.wait_for("=a");
    eventually("some watches are refused", || verbs(&server, "watch") >= 4);
    assert!(follower.told.lock().unwrap().iter().all(|told| told == "=a"));
}

#[test]
fn refused_watch_is_replaced_by_lists() {
    let (server, admin) = server();
    let admin = client(admin);
    server.faults().deny("watch", "leases", "default");
    let follower = Follower::start(&server, LEASES.collection("default"));
    follower.wait_for("=");
    admin.create(&lease("a"), &body("a")).unwrap();
    follower.wait_for("=a");
    server.faults().heal();
    remove(&admin, "a");
    follower.wait_for("=");
    admin.create(&lease("b"), &body("b")).unwrap();
    within(60, "the watch is back", || follower.count("+b") == 1 || follower.count("=b") > 0);
}

#[test]
fn junk_in_a_watch_ends_only_that_watch() {
    let (server, admin) = server();
    let admin = client(admin);
    server.faults().add(Rule::new(Action::NotJson).verb("watch").times(1));
    let follower = Follower::start(&server, LEASES.collection("default"));
    follower.wait_for("=");
    admin.create(&lease("a"), &body("a")).unwrap();
    // By the list that follows, if it is not too early.
    let is_seen = || follower.count("=a") + follower.count("+a") > 0;
    eventually("the object", is_seen);
    let before = follower.count("+a");
    admin
        .patch(
            &lease("a"),
            apiclient::client::Patch::Merge,
            &json!({"metadata": {"labels": {"x": "y"}}}),
        )
        .unwrap();
    eventually("the change", || follower.count("+a") > before);
}

#[test]
fn bookmark_moves_the_version_to_resume_from() {
    let bookmarks = std::time::Duration::from_millis(100);
    let server = Server::start(Options { bookmarks, ..Options::default() }).unwrap();
    let admin = client(access(&server, "admin"));
    let follower = Follower::start(&server, LEASES.object("default", "x"));
    follower.wait_for("=");
    // Changes of other objects are no events here; only a bookmark tells of them.
    admin.create(&lease("other"), &body("other")).unwrap();
    let versions = || watches(&server).iter().map(|query| version(query)).collect::<Vec<_>>();
    // On a busy machine the first ones may not have come yet.
    let is_moved = (2..8).any(|watches| {
        suite::pause(300);
        server.restart();
        eventually("the next watch", || verbs(&server, "watch") == watches);
        versions().last() > versions().first()
    });
    assert!(is_moved, "{:?}", versions());
}

/// Blanks are no sign of life either.
#[test]
fn silent_watch_leads_to_a_new_list() {
    for silence in [Action::WatchSilent, Action::WatchBlanks { milliseconds: 100 }] {
        let (server, admin) = server();
        client(admin).create(&lease("a"), &body("a")).unwrap();
        server.faults().add(Rule::new(silence).verb("watch").times(1));
        let timing =
            Timeouts { silence: std::time::Duration::from_millis(1200), ..crate::timing() };
        let follower = Follower::patient(&server, LEASES.collection("default"), timing);
        follower.wait_for("=a");
        eventually("the second list", || follower.count("=a") == 2);
    }
}

/// About half a minute: so much more than it was asked for a server may take.
#[test]
fn endless_watch_is_ended_by_the_client() {
    let (server, admin) = server();
    client(admin).create(&lease("a"), &body("a")).unwrap();
    let blanks = Action::WatchBlanks { milliseconds: 100 };
    server.faults().add(Rule::new(blanks).verb("watch").times(1));
    let timing = Timeouts { watch: std::time::Duration::from_secs(1), ..crate::timing() };
    let follower = Follower::patient(&server, LEASES.collection("default"), timing);
    follower.wait_for("=a");
    within(60, "another watch", || verbs(&server, "watch") == 2);
}

#[test]
fn watch_cut_after_each_event_is_reopened_slowly() {
    let bookmarks = std::time::Duration::from_millis(20);
    let server = Server::start(Options { bookmarks, ..Options::default() }).unwrap();
    server.faults().add(Rule::new(Action::WatchCut { events: 1 }).verb("watch"));
    let follower = Follower::start(&server, LEASES.collection("default"));
    follower.wait_for("=");
    suite::pause(2500);
    assert!(verbs(&server, "watch") <= 4, "{} watches", verbs(&server, "watch"));
}

#[test]
fn other_object_is_never_taken_for_the_followed_one() {
    let (server, admin) = server();
    let admin = client(admin);
    let other = Action::Answer {
        code: 200,
        body: Some(
            json!({"kind": "LeaseList", "metadata": {}, "items": [body("other")]}).to_string(),
        ),
        retry_after: None,
    };
    server.faults().add(Rule::new(other).verb("list").times(1));
    let follower = Follower::start(&server, LEASES.object("default", "x"));
    follower.wait_for("=");
    admin.create(&lease("x"), &body("x")).unwrap();
    follower.wait_for("+x");
    assert_eq!(follower.count("=other"), 0);
}

#[test]
fn watch_asks_for_bookmarks_and_a_time_limit() {
    let (server, _) = server();
    let follower = Follower::start(&server, LEASES.collection("default"));
    follower.wait_for("=");
    let query = eventually("a watch", || watches(&server).pop());
    assert!(
        query.contains("allowWatchBookmarks=true") && query.contains("timeoutSeconds="),
        "{query}"
    );
}

fn watches(server: &Server) -> Vec<String> {
    let followers = server.requests().into_iter().filter(|request| request.user == "follower");
    followers.filter(|request| request.verb == "watch").map(|request| request.query).collect()
}

fn version(query: &str) -> u64 {
    let (_, rest) = query.split_once("resourceVersion=").expect("a version");
    rest.split('&').next().and_then(|version| version.parse().ok()).expect("a number")
}

/// What a follower with pages of this many objects is told while a reloaded kubeconfig leads it from one server to
/// another, in the middle of its first list.
fn led_elsewhere(page: u32) -> Vec<String> {
    let (one, other) = (server().0, server().0);
    for (server, names) in [(&one, ["a", "b"]), (&other, ["c", "d"])] {
        let admin = client(access(server, "admin"));
        for name in names {
            admin.create(&lease(name), &body(name)).unwrap();
        }
    }
    let (follower, there) = (client(access(&one, "follower")), access(&other, "follower"));
    let selection = Selection { page, ..Selection::all(LEASES.collection("default")) };
    let (mut told, mut listed) = (Vec::new(), Vec::new());
    Watcher::default().run(&follower, &selection, &Stop::default(), &mut |step| {
        if let Event::InitApply(item) = &step
            && item.name() == "a"
        {
            follower.swap(there.clone()).unwrap();
        }
        told.extend(word(&step, &mut listed));
        match step {
            Event::Watching => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        }
    });
    told
}

#[test]
fn list_never_mixes_two_servers() {
    assert_eq!(led_elsewhere(1), ["=c,d"]);
}

#[test]
fn version_of_one_server_is_not_used_on_another() {
    assert_eq!(led_elsewhere(500), ["=c,d"]);
}
