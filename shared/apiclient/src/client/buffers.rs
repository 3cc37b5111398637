//! Buffers of a connection: as large as its peer needs, not as large as they may become.

use ureq::unversioned::transport::{Buffers, ConnectionDetails};

/// The first size of the input, in bytes: rustls asks for so many at a time (src/msgs/deframer/buffers.rs, READ_SIZE),
/// and the events of a quiet watch are smaller.
const FIRST: usize = 4 << 10;

/// Input that grows while nothing of it can be used, such as half of a header, and output of a fixed size.
///
/// ureq's own `LazyBuffers` are of full size from the first byte on: 20 KiB of a connection, and twice that with TLS.
#[derive(Debug)]
pub(super) struct GrowingBuffers {
    input: Vec<u8>,
    consumed: usize,
    filled: usize,
    most_input: usize,
    output: Vec<u8>,
    output_size: usize,
    progress: bool,
}

impl GrowingBuffers {
    /// Empty buffers; nothing is allocated.
    pub(super) fn new(details: &ConnectionDetails) -> Self {
        Self::of(details.config.input_buffer_size(), details.config.output_buffer_size())
    }

    fn of(most_input: usize, output_size: usize) -> Self {
        Self {
            input: Vec::new(),
            consumed: 0,
            filled: 0,
            most_input,
            output: Vec::new(),
            output_size,
            progress: false,
        }
    }
}

impl Buffers for GrowingBuffers {
    fn output(&mut self) -> &mut [u8] {
        self.output.resize(self.output_size, 0);
        &mut self.output
    }

    fn input(&self) -> &[u8] {
        &self.input[self.consumed..self.filled]
    }

    fn input_append_buf(&mut self) -> &mut [u8] {
        self.input.copy_within(self.consumed..self.filled, 0);
        (self.consumed, self.filled) = (0, self.filled - self.consumed);
        let size = self.input.len();
        if self.filled == size && size < self.most_input {
            self.input.resize((2 * size).clamp(FIRST.min(self.most_input), self.most_input), 0);
        }
        &mut self.input[self.filled..]
    }

    fn input_appended(&mut self, amount: usize) {
        self.filled += amount;
    }

    fn input_consume(&mut self, amount: usize) {
        self.progress = amount > 0;
        self.consumed += amount;
    }

    /// The first is scratch for bodies without a length (src/run.rs, send_body); none of ours is.
    fn tmp_and_output(&mut self) -> (&mut [u8], &mut [u8]) {
        self.output.resize(self.output_size, 0);
        (&mut self.input[self.filled..], &mut self.output)
    }

    fn can_use_input(&self) -> bool {
        self.progress && self.filled > self.consumed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn append(buffers: &mut GrowingBuffers, bytes: &[u8]) {
        let free = buffers.input_append_buf();
        free[..bytes.len()].copy_from_slice(bytes);
        buffers.input_appended(bytes.len());
    }

    #[test]
    fn input_that_is_used_needs_no_room() {
        let mut buffers = GrowingBuffers::of(16 << 10, 4 << 10);
        for round in 0..100u8 {
            append(&mut buffers, &[round; FIRST]);
            assert_eq!(buffers.input(), [round; FIRST]);
            buffers.input_consume(FIRST);
        }
        assert_eq!((buffers.input.len(), buffers.input().len()), (FIRST, 0));
    }

    #[test]
    fn input_grows_to_its_limit_and_nothing_of_it_is_lost() {
        let mut buffers = GrowingBuffers::of(16 << 10, 4 << 10);
        append(&mut buffers, b"old");
        buffers.input_consume(3);
        let mut expected = Vec::new();
        for byte in 0..16u8 {
            append(&mut buffers, &[byte; 1024]);
            expected.extend([byte; 1024]);
            assert_eq!(buffers.input(), expected);
        }
        assert!(buffers.input_append_buf().is_empty(), "full: ureq takes it for the end");
        buffers.input_consume(1000);
        assert_eq!(buffers.input_append_buf().len(), 1000);
        assert_eq!(buffers.input(), &expected[1000..]);
    }

    #[test]
    fn input_counts_as_usable_only_after_progress() {
        let mut buffers = GrowingBuffers::of(16 << 10, 4 << 10);
        assert!(!buffers.can_use_input());
        append(&mut buffers, b"half a header");
        buffers.input_consume(0);
        assert!(!buffers.can_use_input(), "it has been looked at in vain");
        buffers.input_consume(4);
        assert!(buffers.can_use_input());
        buffers.input_consume(9);
        assert!(!buffers.can_use_input(), "nothing is left");
    }

    #[test]
    fn output_is_there_when_it_is_needed() {
        let mut buffers = GrowingBuffers::of(16 << 10, 4 << 10);
        assert_eq!(buffers.output.capacity(), 0);
        assert_eq!(buffers.output().len(), 4 << 10);
        let (scratch, output) = buffers.tmp_and_output();
        assert_eq!((scratch.len(), output.len()), (0, 4 << 10));
    }
}
