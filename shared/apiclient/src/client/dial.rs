//! Dialing: proxy, DNS and TCP.

mod proxy;
mod tcp;

use std::{
    io,
    net::{IpAddr, Ipv4Addr, SocketAddr, ToSocketAddrs},
    sync::mpsc,
    time::{Duration, Instant},
};

use ureq::{
    ProxyProtocol, Timeout,
    config::Config,
    http::Uri,
    unversioned::{
        resolver::{ResolvedSocketAddrs, Resolver},
        transport::{ConnectionDetails, Connector, Either, NextTimeout, Transport},
    },
};

use self::tcp::TcpTransport;
use crate::stop::start_thread;

pub(crate) use self::proxy::{bare_host, port, proxy};

/// The time limit for DNS (musl asks a second server after 2.5 s), and again for the TCP connection.
const DIAL_TIMEOUT: Duration = Duration::from_secs(5);

/// Placeholder resolver: ureq resolves before every request, even on a kept connection, but [`Dial`] looks a name up
/// only when it opens one. A SOCKS proxy is resolved here, because ureq itself connects to it.
#[derive(Debug)]
pub(crate) struct LazyResolver;

const LATER: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);

impl Resolver for LazyResolver {
    fn resolve(
        &self,
        uri: &Uri,
        config: &Config,
        timeout: NextTimeout,
    ) -> Result<ResolvedSocketAddrs, ureq::Error> {
        let mut addresses = self.empty();
        let socks = config.proxy().filter(|proxy| proxy.protocol() == ProxyProtocol::Socks5h);
        if socks.is_none_or(|proxy| proxy.uri() != uri) {
            addresses.push(LATER);
            return Ok(addresses);
        }
        let found = look_up(bare_host(uri), port(uri), bounded(timeout))?;
        // ureq takes at most 16 addresses.
        found.iter().take(16).for_each(|address| addresses.push(*address));
        Ok(addresses)
    }
}

#[derive(Debug)]
pub(crate) struct Dial;

/// The addresses of `host`, in the resolver's order (RFC 6724). ureq's own resolver aborts the process if it cannot
/// start a thread.
fn look_up(host: &str, port: u16, timeout: Duration) -> io::Result<Vec<SocketAddr>> {
    if let Ok(address) = host.parse::<IpAddr>() {
        return Ok(vec![(address, port).into()]);
    }
    let (sender, receiver) = mpsc::sync_channel(1);
    let name = host.to_owned();
    // libc's resolver has no time limit and cannot be interrupted.
    start_thread("resolver", move || {
        let found = (&*name, port).to_socket_addrs().map(Iterator::collect::<Vec<_>>);
        let _ = sender.send(found);
    })?;
    let late = || io::Error::other(format!("{host} was not looked up within {timeout:.0?}"));
    match receiver.recv_timeout(timeout).map_err(|_| late())?? {
        found if found.is_empty() => {
            Err(io::Error::other(format!("the name {host} has no address")))
        }
        found => Ok(found),
    }
}

impl<In: Transport> Connector<In> for Dial {
    type Out = Either<In, TcpTransport>;

    fn connect(
        &self,
        details: &ConnectionDetails,
        chained: Option<In>,
    ) -> Result<Option<Self::Out>, ureq::Error> {
        if let Some(transport) = chained {
            return Ok(Some(Either::A(transport)));
        }
        let uri = details.uri;
        let addresses = look_up(bare_host(uri), port(uri), bounded(details.timeout))?;
        let time = bounded(left_of(details));
        let stream = tcp::connect(&addresses, Instant::now() + time).map_err(|error| {
            let over = error.kind() == std::io::ErrorKind::TimedOut;
            if over { ureq::Error::Timeout(Timeout::Connect) } else { error.into() }
        })?;
        TcpTransport::new(stream, details).map(|transport| Some(Either::B(transport)))
    }
}

/// The time to connect that the earlier connectors of the chain left.
pub(crate) fn left_of(details: &ConnectionDetails) -> NextTimeout {
    use ureq::unversioned::transport::time::Instant;

    let mut timeout = details.timeout;
    if let (false, Instant::Exact(now), Instant::Exact(start)) =
        (timeout.after.is_not_happening(), (details.current_time)(), details.now)
    {
        timeout.after = timeout.after.saturating_sub(now.saturating_duration_since(start)).into();
    }
    timeout
}

fn bounded(timeout: NextTimeout) -> Duration {
    timeout.not_zero().map_or(DIAL_TIMEOUT, |time| DIAL_TIMEOUT.min(*time))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_not_looked_up() {
        let address = SocketAddr::from((std::net::Ipv6Addr::LOCALHOST, 6443));
        assert_eq!(look_up("::1", 6443, Duration::ZERO).unwrap(), [address]);
    }

    #[test]
    fn look_up_ends_in_time() {
        let error = look_up("hub.invalid", 6443, Duration::ZERO).unwrap_err().to_string();
        assert_eq!(error, "hub.invalid was not looked up within 0ns");
    }
}
