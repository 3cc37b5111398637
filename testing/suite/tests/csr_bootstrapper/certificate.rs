//! How csr-bootstrapper gets and keeps its certificate, and what goes wrong with that: F40 to F49, a
//! crash at every write, and rotation. What can be asked of both servers is; the rest says why not.

mod answers;
mod clock;
mod crash;
mod forge;
mod hub;
mod object;
mod rotation;
mod saves;
mod stored;
mod support;
mod wrong;
