//! A TCP relay in front of an embedded or real server, which can cut its connections.

use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicU8, AtomicU64, AtomicUsize, Ordering::SeqCst},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use socket2::{Domain, Socket, Type};

/// What happens to connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Way {
    /// They pass.
    Open,
    /// They are refused, and the existing ones are cut.
    Closed,
    /// They are accepted, but no byte passes any more.
    Silent,
    /// Packets vanish: no byte passes any more, and new connections get no answer.
    Hole,
}

/// The relay; dropping it closes its connections.
pub struct Relay {
    pub address: SocketAddr,
    inner: Arc<Inner>,
}

/// The traffic so far: TCP payload, including TLS.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    pub connections: u64,
    pub to_server: u64,
    pub to_client: u64,
}

struct Inner {
    connections_total: AtomicU64,
    to_server: AtomicU64,
    to_client: AtomicU64,
    way: AtomicU8,
    /// Connections of an earlier age stay silent.
    age: AtomicUsize,
    target: Mutex<String>,
    connections: Mutex<Vec<TcpStream>>,
    accepting: Mutex<Option<JoinHandle<()>>>,
    fillers: Mutex<Option<Full>>,
}

/// A listener with a full backlog, and the connections that fill it: the kernel drops each further SYN.
type Full = (Socket, Vec<TcpStream>);

fn fill(address: SocketAddr) -> io::Result<Full> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
    socket.set_reuse_address(true)?;
    socket.bind(&address.into())?;
    socket.listen(0)?;
    // A backlog of 0 takes one connection; on a busy machine, that takes time too.
    let mut fillers = vec![TcpStream::connect_timeout(&address, Duration::from_secs(2))?];
    // Further connections show that the backlog is full.
    let more = || TcpStream::connect_timeout(&address, Duration::from_millis(100)).ok();
    fillers.extend(std::iter::from_fn(more).take(8));
    Ok((socket, fillers))
}

/// Returns the loopback address of the same family as `target`.
pub(crate) fn loopback(target: &str) -> IpAddr {
    match target.parse() {
        Ok(SocketAddr::V6(_)) => Ipv6Addr::LOCALHOST.into(),
        _ => Ipv4Addr::LOCALHOST.into(),
    }
}

impl Relay {
    /// Starts a relay on a free loopback port, in the address family of `target` ("host:port").
    pub fn to(target: &str) -> Self {
        Self::on(SocketAddr::new(loopback(target), 0), target)
    }

    /// Starts a relay on the caller's address.
    pub fn on(address: SocketAddr, target: &str) -> Self {
        let listener = TcpListener::bind(address).expect("a free port");
        let address = listener.local_addr().expect("its address");
        let inner = Arc::new(Inner {
            connections_total: AtomicU64::new(0),
            to_server: AtomicU64::new(0),
            to_client: AtomicU64::new(0),
            way: AtomicU8::new(Way::Open as u8),
            age: AtomicUsize::new(0),
            target: Mutex::new(target.to_owned()),
            connections: Mutex::default(),
            accepting: Mutex::default(),
            fillers: Mutex::default(),
        });
        let relay = Self { address, inner };
        relay.listen(listener);
        relay
    }

    /// Changes what happens to connections.
    pub fn set(&self, way: Way) {
        self.inner.way.store(way as u8, SeqCst);
        match way {
            Way::Open | Way::Silent => {
                self.fillers().take();
                if self.accepting().is_none() {
                    self.listen(self.bind_again());
                }
                // Silent connections cannot recover.
                if way == Way::Open {
                    self.cut();
                }
            }
            Way::Closed => {
                self.stop_listening();
                self.cut();
            }
            Way::Hole => {
                self.stop_listening();
                let full = || fill(self.address).ok();
                *self.fillers() = Some(crate::eventually("the relay's port is free again", full));
            }
        }
    }

    /// Ends all connections; new ones are handled as before.
    pub fn cut(&self) {
        for connection in self.inner.connections.lock().expect("lock").drain(..) {
            let _ = connection.shutdown(Shutdown::Both);
        }
    }

    /// Forgets all connections silently, like a firewall with idle ones; new ones pass.
    pub fn forget(&self) {
        self.inner.age.fetch_add(1, SeqCst);
    }

    /// Ends all connections and leads new ones to another server.
    pub fn redirect(&self, target: &str) {
        target.clone_into(&mut self.inner.target.lock().expect("lock"));
        self.cut();
    }

    /// Returns the traffic so far.
    pub fn traffic(&self) -> Traffic {
        let inner = &self.inner;
        Traffic {
            connections: inner.connections_total.load(SeqCst),
            to_server: inner.to_server.load(SeqCst),
            to_client: inner.to_client.load(SeqCst),
        }
    }

    fn accepting(&self) -> MutexGuard<'_, Option<JoinHandle<()>>> {
        self.inner.accepting.lock().expect("lock")
    }

    fn fillers(&self) -> MutexGuard<'_, Option<Full>> {
        self.inner.fillers.lock().expect("lock")
    }

    fn stop_listening(&self) {
        self.fillers().take();
        if let Some(accepting) = self.accepting().take() {
            // Wakes accept(), which then releases the port.
            let _ = TcpStream::connect_timeout(&self.address, Duration::from_millis(200));
            accepting.join().expect("the relay works");
        }
    }

    fn bind_again(&self) -> TcpListener {
        crate::eventually("the relay's port is free again", || TcpListener::bind(self.address).ok())
    }

    fn listen(&self, listener: TcpListener) {
        let inner = self.inner.clone();
        let accepting = thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let way = inner.way.load(SeqCst);
                if way == Way::Closed as u8 || way == Way::Hole as u8 {
                    return;
                }
                let inner = inner.clone();
                thread::spawn(move || inner.serve(client));
            }
        });
        *self.accepting() = Some(accepting);
    }
}

impl Inner {
    fn serve(self: Arc<Self>, client: TcpStream) -> Option<()> {
        self.remember(&client);
        if self.is_silent() {
            return None;
        }
        let target = self.target.lock().expect("lock").clone();
        let Ok(server) = TcpStream::connect(target) else {
            let _ = client.shutdown(Shutdown::Both);
            return None;
        };
        self.remember(&server);
        // Otherwise, two small writes in a row would wait 40 ms for an acknowledgement.
        client.set_nodelay(true).and_then(|()| server.set_nodelay(true)).ok()?;
        let (client_end, server_end) = (client.try_clone().ok()?, server.try_clone().ok()?);
        let back = self.clone();
        self.connections_total.fetch_add(1, SeqCst);
        thread::spawn(move || back.pump(server, client, &back.to_client));
        self.pump(client_end, server_end, &self.to_server);
        Some(())
    }

    fn is_silent(&self) -> bool {
        let way = self.way.load(SeqCst);
        way == Way::Silent as u8 || way == Way::Hole as u8
    }

    fn remember(&self, connection: &TcpStream) {
        let clone = connection.try_clone().expect("a descriptor");
        self.connections.lock().expect("lock").push(clone);
    }

    fn pump(&self, mut from: TcpStream, mut to: TcpStream, passed: &AtomicU64) {
        let mut chunk = vec![0; 16 << 10];
        let age = self.age.load(SeqCst);
        while let Ok(count @ 1..) = io::Read::read(&mut from, &mut chunk) {
            if self.is_silent() || self.age.load(SeqCst) != age {
                continue;
            }
            // Counted first, so that the count includes every visible effect.
            passed.fetch_add(count as u64, SeqCst);
            if io::Write::write_all(&mut to, &chunk[..count]).is_err() {
                break;
            }
        }
        let _ = to.shutdown(Shutdown::Both);
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.set(Way::Closed);
    }
}
