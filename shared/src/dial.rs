//! The way to a server: which proxy, and when names are looked up.

use std::{
    fmt,
    net::{IpAddr, Ipv4Addr, SocketAddr, ToSocketAddrs},
    sync::Mutex,
};

use ureq::{
    config::Config,
    http::Uri,
    unversioned::{
        resolver::{ResolvedSocketAddrs, Resolver},
        transport::{ConnectionDetails, Connector, Either, NextTimeout, TcpConnector, Transport},
    },
};

use crate::{
    error::{Error, Result},
    lock::lock,
};

/// The proxy for `server`: the kubeconfig's own, else the environment's by Go's rules.
///
/// # Errors
/// `BadConfig` when the proxy's URL cannot be used.
pub(crate) fn proxy(
    configured: Option<&str>,
    server: &Uri,
    env: &dyn Fn(&str) -> Option<String>,
) -> Result<Option<ureq::Proxy>> {
    let url = match configured {
        Some(url) => Some(url.to_owned()),
        None => proxy_from_environment(server, env),
    };
    let Some(url) = url else { return Ok(None) };
    // Go's socks5 lets the proxy resolve names; ureq calls that socks5h.
    let url = match url.strip_prefix("socks5://") {
        Some(rest) => format!("socks5h://{rest}"),
        None => url,
    };
    // The URL may hold a password: it stays out of the message.
    ureq::Proxy::new(&url)
        .map(Some)
        .map_err(|_| Error::BadConfig(format!("the proxy URL for {server} cannot be used")))
}

/// golang.org/x/net/http/httpproxy: by the scheme of the server, lower case as fallback, never for
/// the own host.
fn proxy_from_environment(server: &Uri, env: &dyn Fn(&str) -> Option<String>) -> Option<String> {
    let either = |upper: &str, lower: &str| {
        let set = |name: &str| env(name).filter(|value| !value.is_empty());
        set(upper).or_else(|| set(lower))
    };
    let url = match server.scheme_str() {
        Some("http") => either("HTTP_PROXY", "http_proxy"),
        _ => either("HTTPS_PROXY", "https_proxy"),
    }?;
    let host = bare_host(server).to_ascii_lowercase();
    let ip = host.parse::<IpAddr>().ok();
    if host == "localhost" || ip.is_some_and(|ip| ip.is_loopback()) {
        return None;
    }
    let exempt = either("NO_PROXY", "no_proxy").unwrap_or_default();
    let exempted = exempt.split(',').any(|entry| no_proxy(entry.trim(), &host, ip, port(server)));
    (!exempted).then_some(url)
}

/// Whether one entry of NO_PROXY covers the host.
fn no_proxy(entry: &str, host: &str, ip: Option<IpAddr>, port: u16) -> bool {
    if entry == "*" {
        return true;
    }
    if let Some((net, bits)) = entry.split_once('/') {
        let (Ok(net), Ok(bits), Some(ip)) = (net.parse::<IpAddr>(), bits.parse(), ip) else {
            return false;
        };
        return in_network(ip, net, bits);
    }
    let (name, wanted) = split_port(entry);
    if name.is_empty() || wanted.is_some_and(|wanted| wanted != port) {
        return false;
    }
    let name = name.to_ascii_lowercase();
    if let Ok(other) = name.parse::<IpAddr>() {
        return ip == Some(other);
    }
    let domain = name.strip_prefix("*.").or_else(|| name.strip_prefix('.'));
    let subdomain_of =
        |domain: &str| host.strip_suffix(domain).is_some_and(|rest| rest.ends_with('.'));
    match domain {
        Some(domain) => subdomain_of(domain),
        None => host == name || subdomain_of(&name),
    }
}

fn split_port(entry: &str) -> (&str, Option<u16>) {
    if let Some(rest) = entry.strip_prefix('[') {
        let (name, rest) = rest.split_once(']').unwrap_or((rest, ""));
        return (name, rest.strip_prefix(':').and_then(|port| port.parse().ok()));
    }
    match entry.rsplit_once(':') {
        Some((name, port)) if !name.contains(':') => match port.parse() {
            Ok(port) => (name, Some(port)),
            Err(_) => (entry, None),
        },
        _ => (entry, None),
    }
}

fn in_network(ip: IpAddr, net: IpAddr, bits: u32) -> bool {
    match (ip, net) {
        (IpAddr::V4(ip), IpAddr::V4(net)) if bits <= 32 => {
            let mask = u32::MAX.checked_shl(32 - bits).unwrap_or(0);
            ip.to_bits() & mask == net.to_bits() & mask
        }
        (IpAddr::V6(ip), IpAddr::V6(net)) if bits <= 128 => {
            let mask = u128::MAX.checked_shl(128 - bits).unwrap_or(0);
            ip.to_bits() & mask == net.to_bits() & mask
        }
        _ => false,
    }
}

fn bare_host(uri: &Uri) -> &str {
    uri.host().unwrap_or_default().trim_start_matches('[').trim_end_matches(']')
}

fn port(uri: &Uri) -> u16 {
    let default = match uri.scheme_str() {
        Some("http") => 80,
        Some("socks5h") => 1080,
        _ => 443,
    };
    uri.port_u16().unwrap_or(default)
}

/// ureq asks for addresses before every request, also on a kept connection, and starts a thread for
/// it when a time-out is set. This answers for the server with a placeholder; [`Dial`] looks the
/// name up when a connection is really opened.
#[derive(Debug)]
pub(crate) struct LazyResolver {
    pub(crate) server: Uri,
}

const LATER: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);

impl Resolver for LazyResolver {
    fn resolve(
        &self,
        uri: &Uri,
        _: &Config,
        _: NextTimeout,
    ) -> std::result::Result<ResolvedSocketAddrs, ureq::Error> {
        let mut addresses = self.empty();
        if uri.authority() == self.server.authority() {
            addresses.push(LATER);
            return Ok(addresses);
        }
        // A proxy: asked for only when a connection is opened.
        fill(&mut addresses, &look_up(uri)?);
        Ok(addresses)
    }
}

/// Opens the TCP connection; keeps the last good addresses for the time when the name service is away.
#[derive(Default)]
pub(crate) struct Dial {
    tcp: TcpConnector,
    last_good: Mutex<Vec<SocketAddr>>,
}

impl Dial {
    fn addresses(&self, uri: &Uri) -> std::result::Result<Vec<SocketAddr>, ureq::Error> {
        let found = look_up(uri);
        let mut last_good = lock(&self.last_good);
        match found {
            Ok(found) => last_good.clone_from(&found),
            Err(e) if last_good.is_empty() => return Err(e),
            Err(e) => log::debug!("{e}: the last known addresses are tried"),
        }
        Ok(last_good.clone())
    }
}

impl<In: Transport> Connector<In> for Dial {
    type Out = Either<In, <TcpConnector as Connector<In>>::Out>;

    fn connect(
        &self,
        details: &ConnectionDetails,
        chained: Option<In>,
    ) -> std::result::Result<Option<Self::Out>, ureq::Error> {
        if let Some(transport) = chained {
            return Ok(Some(Either::A(transport)));
        }
        let mut addrs = details.resolver.empty();
        match details.addrs.first() {
            Some(&LATER) => fill(&mut addrs, &self.addresses(details.uri)?),
            _ => fill(&mut addrs, &details.addrs),
        }
        let details = ConnectionDetails {
            uri: details.uri,
            addrs,
            config: details.config,
            request_level: details.request_level,
            resolver: details.resolver,
            now: details.now,
            timeout: details.timeout,
            current_time: details.current_time.clone(),
            run_connector: details.run_connector.clone(),
            register_shutdown: details.register_shutdown.clone(),
        };
        Ok(self.tcp.connect(&details, None)?.map(Either::B))
    }
}

impl fmt::Debug for Dial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Dial")
    }
}

fn look_up(uri: &Uri) -> std::result::Result<Vec<SocketAddr>, ureq::Error> {
    let found: Vec<_> = (bare_host(uri), port(uri)).to_socket_addrs()?.collect();
    if found.is_empty() { Err(ureq::Error::HostNotFound) } else { Ok(found) }
}

/// ureq keeps 16 addresses at most.
fn fill(addresses: &mut ResolvedSocketAddrs, found: &[SocketAddr]) {
    for address in found.iter().take(16) {
        addresses.push(*address);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(server: &str, vars: &[(&str, &str)]) -> Option<String> {
        let env = |name: &str| {
            vars.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
        };
        let proxy = proxy(None, &server.parse().unwrap(), &env).unwrap();
        proxy.map(|proxy| proxy.uri().to_string())
    }

    #[test]
    fn the_proxy_is_chosen_by_the_servers_scheme() {
        let both = [("HTTPS_PROXY", "http://s:1"), ("HTTP_PROXY", "http://h:1")];
        assert_eq!(chosen("https://x", &both).as_deref(), Some("http://s:1/"));
        assert_eq!(chosen("http://x", &both).as_deref(), Some("http://h:1/"));
        assert_eq!(chosen("https://x", &both[1..]), None);
        assert_eq!(chosen("https://x", &[("ALL_PROXY", "http://a:1")]), None, "not Go's");
        let lower = [("HTTPS_PROXY", ""), ("https_proxy", "http://l:1")];
        assert_eq!(chosen("https://x", &lower).as_deref(), Some("http://l:1/"));
    }

    #[test]
    fn no_proxy_is_read_as_go_reads_it() {
        for (server, exempt, direct) in [
            ("https://localhost", "", true),
            ("https://127.0.0.1:6443", "", true),
            ("https://[::1]:6443", "", true),
            ("https://10.0.0.1", "", false),
            ("https://10.0.0.1", "*", true),
            ("https://10.0.0.1", "10.0.0.1", true),
            ("https://10.0.0.2", "10.0.0.1", false),
            ("https://10.0.0.1:443", "10.0.0.1:443", true),
            ("https://10.0.0.1:6443", "10.0.0.1:443", false),
            ("https://10.1.2.3", "10.0.0.0/8", true),
            ("https://11.1.2.3", "10.0.0.0/8", false),
            ("https://10.1.2.3", "0.0.0.0/0", true),
            ("https://[fd00::1]", "fd00::/8", true),
            ("https://[fd00::1]", "[fd00::1]", true),
            ("https://[fd00::1]:6443", "[fd00::1]:443", false),
            ("https://hub.example.com", "example.com", true),
            ("https://example.com", "example.com", true),
            ("https://example.com", ".example.com", false),
            ("https://hub.example.com", ".example.com", true),
            ("https://hub.example.com", "*.example.com", true),
            ("https://badexample.com", "example.com", false),
            ("https://HUB.example.com", "other.org, EXAMPLE.com", true),
            ("https://hub.example.com:6443", "example.com:6443", true),
            ("https://hub.example.com", "example.com:6443", false),
            ("https://10.1.2.3", "10.0.0.0/99,junk/x,:,[", false),
        ] {
            let vars = [("HTTPS_PROXY", "http://proxy:3128"), ("NO_PROXY", exempt)];
            assert_eq!(chosen(server, &vars).is_none(), direct, "{server} with {exempt:?}");
        }
    }

    #[test]
    fn the_kubeconfigs_proxy_wins_and_ignores_no_proxy() {
        let env = |name: &str| (name == "NO_PROXY").then(|| "*".to_owned());
        let server = "https://hub".parse().unwrap();
        let proxy = proxy(Some("socks5://user:pw@p:1080"), &server, &env).unwrap().unwrap();
        assert_eq!(proxy.protocol(), ureq::ProxyProtocol::Socks5h, "names are the proxy's matter");
        let error = super::proxy(Some("::hunter2::"), &server, &env).unwrap_err().to_string();
        assert!(!error.contains("hunter2"), "{error}");
    }

    #[test]
    fn a_server_given_by_name_is_not_looked_up_before_a_connection_is_opened() {
        let server: Uri = "https://hub.invalid:6443".parse().unwrap();
        let resolver = LazyResolver { server: server.clone() };
        let config = Config::builder().build();
        let found = resolver.resolve(&server, &config, NextTimeout::default()).unwrap();
        assert_eq!(&found[..], [LATER]);
    }

    #[test]
    fn f23_the_last_good_addresses_serve_while_the_name_service_is_away() {
        let dial = Dial::default();
        let unknown: Uri = "https://hub.invalid:6443".parse().unwrap();
        assert!(dial.addresses(&unknown).is_err());
        let known = SocketAddr::from(([10, 0, 0, 1], 6443));
        *dial.last_good.lock().unwrap() = vec![known];
        assert_eq!(dial.addresses(&unknown).unwrap(), [known]);
    }

    #[test]
    fn f23_more_than_sixteen_addresses_are_cut_not_fatal() {
        let resolver = LazyResolver { server: Uri::from_static("https://x") };
        let mut addresses = resolver.empty();
        fill(&mut addresses, &[LATER; 40]);
        assert_eq!(addresses.len(), 16);
    }
}
