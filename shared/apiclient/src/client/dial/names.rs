//! Names of servers, looked up in bounded time: the resolver of the C library has no limit and cannot be
//! interrupted.

use std::{
    io, mem,
    net::{IpAddr, SocketAddr, ToSocketAddrs},
    sync::{Arc, Condvar, Mutex, PoisonError},
    time::{Duration, Instant},
};

use crate::{lock::lock, thread::start_thread};

/// The time for which a late answer still serves the next connection.
const FRESH: Duration = Duration::from_secs(10);

/// The limit of remembered names.
const MOST_NAMES: usize = 1024;

/// The addresses of the names of servers and proxies.
#[derive(Clone, Debug, Default)]
pub(super) struct DnsCache(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    all: Mutex<Vec<Name>>,
    changed: Condvar,
}

#[derive(Debug)]
struct Name {
    host: String,
    /// Addresses of the last look-up that found any; the one that answered last comes first.
    addresses: Vec<IpAddr>,
    state: State,
}

#[derive(Debug)]
enum State {
    Idle,
    /// A thread is looking it up.
    Asked,
    Answered(io::Result<()>, Instant),
}

impl DnsCache {
    /// The addresses of `host`, looked up anew, or else the last known ones, if that fails or takes longer
    /// than half of `patience`: connecting takes time too.
    pub(super) fn look_up(
        &self,
        host: &str,
        port: u16,
        patience: Duration,
    ) -> io::Result<Vec<SocketAddr>> {
        if let Ok(address) = host.parse::<IpAddr>() {
            return Ok(vec![(address, port).into()]);
        }
        let Self(shared) = self;
        let mut all = lock(&shared.all);
        let name = find(&mut all, host);
        let patience = if name.addresses.is_empty() { patience } else { patience / 2 };
        let serves = match &name.state {
            State::Asked => true,
            State::Answered(answer, at) => answer.is_ok() && at.elapsed() < FRESH,
            State::Idle => false,
        };
        if !serves {
            shared.clone().ask(host)?;
            name.state = State::Asked;
        }
        let asked = |all: &mut Vec<Name>| matches!(find(all, host).state, State::Asked);
        let (mut all, _) = shared
            .changed
            .wait_timeout_while(all, patience, asked)
            .unwrap_or_else(PoisonError::into_inner);
        find(&mut all, host).result(port, patience)
    }

    /// Records that this address of `host` answers.
    pub(super) fn prefer(&self, host: &str, address: SocketAddr) {
        find(&mut lock(&self.0.all), host).prefer(address.ip());
    }
}

impl Shared {
    fn ask(self: Arc<Self>, host: &str) -> io::Result<()> {
        let host = host.to_owned();
        let ask = move || {
            let found = (&*host, 0).to_socket_addrs().map(|found| found.map(|a| a.ip()).collect());
            find(&mut lock(&self.all), &host).record(found);
            self.changed.notify_all();
        };
        start_thread("resolver", ask)
    }
}

impl Name {
    fn record(&mut self, found: io::Result<Vec<IpAddr>>) {
        let unknown = || io::Error::other(format!("the name {} has no address", self.host));
        let found = found.and_then(|all| if all.is_empty() { Err(unknown()) } else { Ok(all) });
        let answer = found.map(|mut found| {
            found.dedup();
            let before = mem::replace(&mut self.addresses, found);
            // The others stay in the resolver's order (RFC 6724).
            before.first().into_iter().for_each(|first| self.prefer(*first));
        });
        self.state = State::Answered(answer, Instant::now());
    }

    fn prefer(&mut self, address: IpAddr) {
        if let Some(place) = self.addresses.iter().position(|known| *known == address) {
            self.addresses[..=place].rotate_right(1);
        }
    }

    /// The addresses, and with them the answer if there is one. An answer serves once, a failure all its
    /// waiters.
    fn result(&mut self, port: u16, patience: Duration) -> io::Result<Vec<SocketAddr>> {
        let failure = match &self.state {
            State::Answered(Err(error), _) => Some(io::Error::other(error.to_string())),
            State::Answered(Ok(()), _) => {
                self.state = State::Idle;
                None
            }
            // Another connection has just used it.
            State::Idle => None,
            State::Asked => {
                let text = format!("{} was not looked up within {patience:.0?}", self.host);
                Some(io::Error::other(text))
            }
        };
        match failure {
            Some(error) if self.addresses.is_empty() => return Err(error),
            Some(error) => {
                log::debug!(server = self.host, error:% = error; "trying the last known addresses")
            }
            None => {}
        }
        Ok(self.addresses.iter().map(|address| (*address, port).into()).collect())
    }
}

fn find<'a>(all: &'a mut Vec<Name>, host: &str) -> &'a mut Name {
    let place = all.iter().position(|name| name.host == host).unwrap_or_else(|| {
        if all.len() >= MOST_NAMES {
            all.remove(0);
        }
        all.push(Name { host: host.to_owned(), addresses: Vec::new(), state: State::Idle });
        all.len() - 1
    });
    &mut all[place]
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1));
    const TWO: IpAddr = IpAddr::V6(std::net::Ipv6Addr::LOCALHOST);
    const MOMENT: Duration = Duration::from_millis(10);

    fn name(state: State) -> Name {
        Name { host: "hub".into(), addresses: Vec::new(), state }
    }

    #[test]
    fn an_address_is_no_name() {
        let names = DnsCache::default();
        assert_eq!(names.look_up("::1", 6443, MOMENT).unwrap(), [SocketAddr::new(TWO, 6443)]);
        assert!(lock(&names.0.all).is_empty(), "nobody was asked");
    }

    #[test]
    fn last_good_addresses_serve_while_dns_is_away() {
        let names = DnsCache::default();
        assert!(names.look_up("hub.invalid", 6443, Duration::from_secs(60)).is_err());
        find(&mut lock(&names.0.all), "hub.invalid").addresses = vec![ONE];
        let found = names.look_up("hub.invalid", 6443, Duration::from_secs(60)).unwrap();
        assert_eq!(found, [SocketAddr::new(ONE, 6443)]);
    }

    #[test]
    fn hanging_name_service_is_asked_once_and_given_up() {
        let names = DnsCache::default();
        lock(&names.0.all).push(name(State::Asked));
        let started = Instant::now();
        let error = names.look_up("hub", 6443, MOMENT).unwrap_err().to_string();
        assert_eq!(error, "hub was not looked up within 10ms");
        assert!(started.elapsed() >= MOMENT);
        // A late answer serves the next connection.
        find(&mut lock(&names.0.all), "hub").record(Ok(vec![ONE]));
        assert_eq!(names.look_up("hub", 1, MOMENT).unwrap(), [SocketAddr::new(ONE, 1)]);
        assert!(matches!(find(&mut lock(&names.0.all), "hub").state, State::Idle));
    }

    #[test]
    fn address_that_answered_last_comes_first() {
        let mut hub = name(State::Asked);
        hub.record(Ok(vec![ONE, ONE, TWO]));
        assert_eq!(hub.addresses, [ONE, TWO]);
        hub.prefer(TWO);
        hub.record(Ok(vec![ONE, TWO]));
        assert_eq!(hub.addresses, [TWO, ONE]);
        hub.record(Ok(Vec::new()));
        assert_eq!(hub.addresses, [TWO, ONE], "no address is no news");
        assert!(
            matches!(&hub.state, State::Answered(Err(error), _) if error.to_string().contains("hub"))
        );
    }
}
