//! Each invariant is broken once, by one process of two.

use std::time::SystemTime;

use serde_json::json;

use super::*;

const SECOND: Duration = Duration::from_secs(1);

/// Two processes that renew each second, from `start` on.
struct Fleet {
    start: Instant,
    requests: Vec<Request>,
}

impl Fleet {
    fn new(seconds: u32, change: impl Fn(u32, &mut Request)) -> Self {
        let mut fleet = Self { start: Instant::now(), requests: Vec::new() };
        for second in 0..seconds {
            let well = fleet.renewal("soak-0", second);
            let mut other = fleet.renewal("soak-1", second);
            change(second, &mut other);
            fleet.requests.extend([well, other]);
        }
        fleet
    }

    fn renewal(&self, namespace: &str, second: u32) -> Request {
        let time = format!("2026-01-01T00:00:{second:02}.000000Z");
        Request {
            id: u64::from(second) + 1,
            at: self.start + second * SECOND,
            time: SystemTime::UNIX_EPOCH,
            connection: 1,
            user: namespace.into(),
            method: "PUT".into(),
            path: String::new(),
            query: String::new(),
            verb: "update".into(),
            group: "coordination.k8s.io".into(),
            resource: "leases".into(),
            subresource: String::new(),
            namespace: namespace.into(),
            name: LEASE.into(),
            user_agent: String::new(),
            accept: String::new(),
            content_type: String::new(),
            body: json!({"spec": {"renewTime": time}}).to_string().into_bytes(),
            code: 200,
            struck: false,
            received: 0,
            sent: 0,
        }
    }

    /// What is broken at the end, by the beginnings of its sentences.
    fn broken(&self, away: Option<(u32, u32)>) -> Vec<String> {
        let mut witness = Witness::new(2);
        if let Some((begin, end)) = away {
            witness.was_away(self.start + begin * SECOND, self.start + end * SECOND);
        }
        witness.look(self.requests.clone());
        let last = self.requests.iter().map(|request| request.at).max().expect("requests");
        witness.look_at_the_end(last + SECOND);
        let words = |text: &String| text.split_inclusive(' ').take(2).collect::<String>();
        witness.violations.iter().map(words).collect()
    }
}

#[test]
fn all_is_well() {
    assert_eq!(Fleet::new(20, |_, _| {}).broken(None), [""; 0]);
}

#[test]
fn i1_the_lease_of_another() {
    let fleet = Fleet::new(20, |second, request| {
        if second == 5 {
            request.namespace = "soak-0".into();
        }
    });
    assert_eq!(fleet.broken(None), ["I1: soak-1 "]);
}

#[test]
fn i2_a_time_before_the_last() {
    let earlier = br#"{"spec": {"renewTime": "2026-01-01T00:00:03.000000Z"}}"#;
    let fleet = Fleet::new(20, |second, request| {
        if second == 5 {
            request.body = earlier.to_vec();
        }
    });
    assert_eq!(fleet.broken(None), ["I2: soak-1: "]);
}

#[test]
fn i3_whoever_is_refused_for_ever_renews_nothing() {
    let fleet = Fleet::new(40, |second, request| {
        if second > 30 {
            request.code = 409;
        }
    });
    assert_eq!(fleet.broken(None), ["I3: soak-1 "]);
}

#[test]
fn i3_faults_are_no_excuse_at_the_end() {
    let fleet = Fleet::new(40, |second, request| {
        if second > 30 {
            (request.code, request.struck) = (409, true);
        }
    });
    assert_eq!(fleet.broken(None), ["I3: soak-1 "]);
}

#[test]
fn i3_whoever_renews_less_often_than_the_others() {
    let fleet = Fleet::new(40, |second, request| {
        if second % 2 == 1 {
            request.code = 409;
        }
    });
    assert_eq!(fleet.broken(None), ["I3: soak-1 "]);
}

#[test]
fn i3_a_fault_may_cost_its_time_and_no_more() {
    let missing = |until: u32| {
        Fleet::new(20, move |second, request| match second {
            6 => (request.code, request.struck) = (0, true),
            _ if (7..until).contains(&second) => request.code = 409,
            _ => {}
        })
    };
    assert_eq!(missing(9).broken(None), [""; 0]);
    assert_eq!(missing(11).broken(None), ["I3: soak-1 "]);
}

#[test]
fn i4_whoever_comes_late_after_an_outage() {
    let fleet = |late: u32| {
        Fleet::new(40, move |second, request| {
            if (10..16 + late).contains(&second) {
                request.code = 0;
            }
        })
    };
    // The other one did not notice it.
    assert_eq!(fleet(1).broken(Some((10, 15))), [""; 0]);
    assert_eq!(fleet(3).broken(Some((10, 15))), ["I4: soak-1 "]);
}
