//! kill -9 after every write of a join and of a rotation.

use suite::kill::Moment;

use crate::certificate::crash::{Work, kill_at_every_write};

#[test]
fn kill_after_every_write_of_a_join_leaves_one_csr() {
    kill_at_every_write(Work::Join, Moment::After, [6, 3]);
}

#[test]
fn kill_after_every_write_of_a_rotation_leaves_one_csr() {
    kill_at_every_write(Work::Rotation, Moment::After, [5, 2]);
}
