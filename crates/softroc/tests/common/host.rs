//! A minimal NBD client, written from the protocol's text, independent of our code: simple replies,
//! one request at a time. It knows exactly which of its writes were acknowledged.

use std::io::{Read, Result, Write};
use std::os::unix::net::UnixStream;

pub struct Host {
    stream: UnixStream,
    pub size: u64,
}

fn be64(bytes: &[u8]) -> u64 {
    u64::from_be_bytes(bytes.try_into().expect("eight bytes"))
}

impl Host {
    pub fn connect(socket: &str, export: &str) -> Result<Host> {
        let mut stream = UnixStream::connect(socket)?;
        let mut greeting = [0; 18];
        stream.read_exact(&mut greeting)?;
        assert_eq!(&greeting[..16], b"NBDMAGICIHAVEOPT");
        // Fixed newstyle, no zeroes; then NBD_OPT_EXPORT_NAME.
        stream.write_all(&3u32.to_be_bytes())?;
        stream.write_all(b"IHAVEOPT")?;
        stream.write_all(&1u32.to_be_bytes())?;
        stream.write_all(&(export.len() as u32).to_be_bytes())?;
        stream.write_all(export.as_bytes())?;
        let mut export = [0; 10];
        stream.read_exact(&mut export)?;
        Ok(Host { stream, size: be64(&export[..8]) })
    }

    fn request(
        &mut self,
        flags: u16,
        command: u16,
        offset: u64,
        len: u32,
        data: &[u8],
    ) -> Result<()> {
        let mut header = Vec::with_capacity(28 + data.len());
        header.extend(0x2560_9513u32.to_be_bytes());
        header.extend(flags.to_be_bytes());
        header.extend(command.to_be_bytes());
        header.extend(offset.to_be_bytes()); // The cookie.
        header.extend(offset.to_be_bytes());
        header.extend(len.to_be_bytes());
        header.extend(data);
        self.stream.write_all(&header)
    }

    /// The error number of the reply.
    fn reply(&mut self, cookie: u64) -> Result<u32> {
        let mut reply = [0; 16];
        self.stream.read_exact(&mut reply)?;
        assert_eq!(reply[..4], 0x6744_6698u32.to_be_bytes());
        assert_eq!(be64(&reply[8..]), cookie);
        Ok(u32::from_be_bytes(reply[4..8].try_into().expect("four bytes")))
    }

    fn command(
        &mut self,
        flags: u16,
        command: u16,
        offset: u64,
        len: u32,
        data: &[u8],
    ) -> Result<()> {
        self.request(flags, command, offset, len, data)?;
        match self.reply(offset)? {
            0 => Ok(()),
            errno => Err(std::io::Error::from_raw_os_error(errno as i32)),
        }
    }

    /// Returns when the write is acknowledged.
    pub fn write(&mut self, offset: u64, data: &[u8]) -> Result<()> {
        self.command(0, 1, offset, data.len() as u32, data)
    }

    /// The same with FUA.
    pub fn write_durable(&mut self, offset: u64, data: &[u8]) -> Result<()> {
        self.command(1, 1, offset, data.len() as u32, data)
    }

    /// Announces a write without sending its payload.
    pub fn announce_write(&mut self, offset: u64, len: u32) {
        self.request(0, 1, offset, len, &[]).expect("the header is sent");
    }

    pub fn flush(&mut self) -> Result<()> {
        self.command(0, 3, 0, 0, &[])
    }

    pub fn read(&mut self, offset: u64, len: usize) -> Result<Vec<u8>> {
        self.command(0, 0, offset, len as u32, &[])?;
        let mut data = vec![0; len];
        self.stream.read_exact(&mut data)?;
        Ok(data)
    }
}
