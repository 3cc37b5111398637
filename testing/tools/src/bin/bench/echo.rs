//! A plain watch beside the program: when a server reported which change.

use std::{
    collections::HashMap,
    ops::ControlFlow,
    sync::{Arc, Mutex},
    thread,
    time::{Duration, Instant},
};

use apiclient::{
    client::{Client, Reload, Timeouts},
    json::Document,
    stop::Stop,
    watch::{Event, Selection, Watcher},
};
use suite::{cluster::Cluster, sync::WIDGETS};

/// When each number of each object was first reported.
type Seen = HashMap<(String, u64), Instant>;

/// Follows all widgets of a server until it is dropped.
pub(crate) struct Echo {
    seen: Arc<Mutex<Seen>>,
    client: Client,
    stop: Stop,
}

/// The part of objects that is watched.
#[derive(Clone, Copy)]
pub(crate) enum What {
    Spec,
    Status,
}

impl Echo {
    pub(crate) fn of(cluster: &Cluster, what: What) -> Self {
        let access = kubeconfig::from_file(&cluster.kubeconfig).expect("a kubeconfig");
        let timing = Timeouts::with_request(Duration::from_secs(10));
        let client = Client::new("a witness", access, Reload::Never, timing).expect("a client");
        let echo = Self { seen: Arc::default(), client, stop: Stop::default() };
        let (seen, client, stop) = (echo.seen.clone(), echo.client.clone(), echo.stop.clone());
        thread::spawn(move || {
            let selection = Selection::all(WIDGETS.resource.everywhere());
            Watcher::default().run(&client, &selection, &stop, &mut |step| {
                if let Event::InitApply(Document::Whole(object))
                | Event::Apply(Document::Whole(object)) = step
                {
                    let number = match what {
                        What::Spec => WIDGETS.number(&object),
                        What::Status => WIDGETS.healthy(&object),
                    };
                    let text = |key: &str| object["metadata"][key].as_str().unwrap_or_default();
                    let key = format!("{}/{}", text("namespace"), text("name"));
                    let mut seen = seen.lock().expect("lock");
                    seen.entry((key, number.unwrap_or(0))).or_insert_with(Instant::now);
                }
                ControlFlow::Continue(())
            });
        });
        echo
    }

    /// Waits until the object with this key has this number; returns when that was seen.
    pub(crate) fn wait_for(&self, key: &str, number: u64) -> Instant {
        let begun = Instant::now();
        loop {
            if let Some(at) = self.seen.lock().expect("lock").get(&(key.to_owned(), number)) {
                return *at;
            }
            assert!(begun.elapsed() < Duration::from_secs(20), "{key} has no number {number}");
            thread::sleep(Duration::from_micros(500));
        }
    }
}

impl Drop for Echo {
    fn drop(&mut self) {
        self.stop.raise();
        self.client.close();
    }
}
