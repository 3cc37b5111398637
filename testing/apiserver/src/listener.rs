//! The port, which listens or refuses, and its accepted connections.

use std::{
    collections::HashMap,
    io,
    net::{Shutdown, SocketAddr, TcpStream},
    sync::{Arc, Mutex, atomic::Ordering::Relaxed},
    thread::{self, JoinHandle},
};

use rustls::ServerConfig;
use socket2::{Domain, Socket, Type};

use crate::{cluster::Cluster, connection, gate::State, lock::lock};

/// Stack size in bytes: plenty for TLS and JSON, as each client of a fleet costs a thread.
const STACK: usize = 1024 * 1024;

pub(crate) struct Listener {
    cluster: Arc<Cluster>,
    tls: Arc<ServerConfig>,
    address: SocketAddr,
    /// Bound but never listening: reserves the port while the server refuses.
    _reserved: Socket,
    /// The listening socket and its thread.
    open: Mutex<Option<(Socket, JoinHandle<()>)>>,
    connections: Arc<Mutex<HashMap<u64, TcpStream>>>,
}

impl Listener {
    pub(crate) fn new(
        cluster: Arc<Cluster>,
        tls: Arc<ServerConfig>,
        address: SocketAddr,
    ) -> io::Result<Arc<Self>> {
        let reserved = bound(address)?;
        let address = reserved.local_addr()?.as_socket();
        let address = address.ok_or_else(|| io::Error::other("no IP address"))?;
        let listener = Arc::new(Self {
            cluster,
            tls,
            address,
            _reserved: reserved,
            open: Mutex::default(),
            connections: Arc::default(),
        });
        listener.open()?;
        Ok(listener)
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Applies the state to the port.
    pub(crate) fn apply(&self, state: State) -> io::Result<()> {
        match state {
            State::Refuse => {
                self.close();
                self.cut();
                Ok(())
            }
            _ if lock(&self.open).is_some() => Ok(()),
            _ => self.open(),
        }
    }

    /// Cuts all connections.
    pub(crate) fn cut(&self) {
        for stream in lock(&self.connections).values() {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    /// Stops listening; open connections stay.
    pub(crate) fn close(&self) {
        let open = lock(&self.open).take();
        if let Some((socket, thread)) = open {
            // Wakes the thread from its accept.
            let _ = socket.shutdown(Shutdown::Both);
            let _ = thread.join();
        }
    }

    fn open(&self) -> io::Result<()> {
        self.close();
        let socket = bound(self.address)?;
        socket.listen(1024)?;
        let acceptor = Acceptor {
            cluster: self.cluster.clone(),
            tls: self.tls.clone(),
            connections: self.connections.clone(),
            socket: socket.try_clone()?,
        };
        let thread = thread::Builder::new().name("accept".into()).spawn(|| acceptor.run())?;
        *lock(&self.open) = Some((socket, thread));
        Ok(())
    }
}

fn bound(address: SocketAddr) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
    socket.set_reuse_address(true)?;
    socket.bind(&address.into())?;
    Ok(socket)
}

struct Acceptor {
    cluster: Arc<Cluster>,
    tls: Arc<ServerConfig>,
    connections: Arc<Mutex<HashMap<u64, TcpStream>>>,
    socket: Socket,
}

impl Acceptor {
    fn run(self) {
        while let Ok((socket, _)) = self.socket.accept() {
            let tcp = TcpStream::from(socket);
            let id = self.cluster.log.connections.fetch_add(1, Relaxed) + 1;
            let Ok(handle) = tcp.try_clone() else { continue };
            lock(&self.connections).insert(id, handle);
            let (cluster, tls) = (self.cluster.clone(), self.tls.clone());
            let registered = Registered { connections: self.connections.clone(), id };
            let serve = move || {
                let _registered = registered;
                connection::serve(cluster, tls, tcp, id);
            };
            // If the thread cannot be spawned, the connection is dropped with the closure.
            let _ = thread::Builder::new().stack_size(STACK).spawn(serve);
        }
    }
}

/// Deregisters and closes the connection on drop, even if its thread panics.
struct Registered {
    connections: Arc<Mutex<HashMap<u64, TcpStream>>>,
    id: u64,
}

impl Drop for Registered {
    fn drop(&mut self) {
        if let Some(stream) = lock(&self.connections).remove(&self.id) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}
