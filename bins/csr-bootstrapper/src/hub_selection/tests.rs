use super::*;

const TIMEOUT: Duration = Duration::from_secs(600);
const WORKS: HubState = HubState::Works;
const DENIED: HubState = HubState::Denied;
const FAILING: HubState = HubState::Failing;

/// The second in which another hub is selected, after these states were found in these seconds.
fn due(timeout: Duration, found: &[(u64, HubState)]) -> Option<u64> {
    let start = Instant::now();
    let mut timer = HubTimer { timeout, state: HubState::Unread, since: start };
    let mut due = None;
    for (second, state) in found {
        due = timer.due(*state, start + Duration::from_secs(*second));
    }
    Some(due?.duration_since(start).as_secs())
}

#[test]
fn hub_is_left_once_a_state_has_lasted_too_long() {
    for (found, expected) in [
        (&[(0, WORKS)][..], None),
        (&[(0, WORKS), (60, FAILING)], Some(660)),
        (&[(0, WORKS), (60, FAILING), (600, FAILING)], Some(660)),
        // A single failure is never the timeout, not even after the process was suspended.
        (&[(0, WORKS), (2000, FAILING)], Some(2600)),
        (&[(0, FAILING), (90, WORKS), (100, FAILING)], Some(700)),
        (&[(10, HubState::Joining)], Some(610)),
        (&[(10, HubState::Joining), (500, HubState::Joined)], Some(1100)),
        (&[(0, WORKS), (10, DENIED), (14, DENIED)], Some(15)),
        (&[(0, DENIED), (3, WORKS), (4, DENIED)], Some(9)),
        (&[(1, HubState::Unread)], Some(10)),
        (&[(1, HubState::Unread), (2, HubState::NotSelected)], Some(2)),
    ] {
        assert_eq!(due(TIMEOUT, found), expected, "{found:?}");
    }
    let short = Duration::from_secs(3);
    assert_eq!(due(short, &[(1, WORKS), (2, FAILING)]), Some(5));
    assert_eq!(due(short, &[(1, HubState::Joined)]), Some(61), "the first heartbeat has its time");
}

#[test]
fn others_are_asked_from_the_selected_hub_on() {
    let servers = ["hub1", "hub2", "hub3"].map(|server| Some(server.to_owned()));
    assert_eq!(others(&servers, None), [0, 1, 2]);
    assert_eq!(others(&servers, Some("hub2")), [2, 0]);
    let one = Some("hub1".to_owned());
    assert_eq!(others(&[None, one.clone()], None), [1], "no valid kubeconfig");
    assert_eq!(others(&[one.clone(), one], Some("hub1")), [0; 0], "two of one hub");
}
