//! The engine in another program, in about sixty lines: writes a RAID 5 of four simulated drives,
//! fails a drive, and reads the data back. It runs in virtual time, which it prints; the same seed
//! gives the same run.
//!
//! ```text
//! cargo run -p array --example simulated_array
//! ```

use array::{Choices, assemble};
use layout::{Level, Shape};
use platform::{Buf, Durability, Member};
use platform_sim::{DriveOptions, Sim, SimOptions};
use smallvec::smallvec;
use std::error::Error;
use std::rc::Rc;
use units::{ByteCount, ByteOffset, DriveCount, StripSize};

const DRIVES: u16 = 4;
const WRITTEN: ByteCount = ByteCount(1 << 20);

fn main() -> Result<(), Box<dyn Error>> {
    let mut sim = Sim::new(SimOptions { seed: 7, ..SimOptions::default() });
    let options = DriveOptions { size: ByteCount(64 << 20), ..DriveOptions::default() };
    let drives: Vec<_> =
        (0..DRIVES).map(|index| sim.add_drive(&format!("d{index}"), options.clone())).collect();
    let env = sim.env();
    sim.run(async move {
        // Any drive that `Env` can open can be a member: files, block devices, NBD exports.
        let mut sources = Vec::new();
        for drive in &drives {
            sources.push(drives::open(&env, drive.name()).await?);
        }
        let shape = Shape::new(Level::Raid5, DriveCount(DRIVES));
        let strip = StripSize::new(ByteCount(64 << 10))?;
        let volume = assemble(&env, &shape, strip, sources, Choices::default()).await?;
        let volume = Member::new(&env, Rc::new(volume.as_drive()));
        println!("{} of RAID 5 on {DRIVES} drives", volume.info().size);

        let content: Vec<u8> = (0..WRITTEN.0).map(|at| (at % 251) as u8).collect();
        let payload = smallvec![Buf::copy_of(&content).freeze()];
        volume.write(ByteOffset(0), payload, Durability::Durable).await.result?;
        println!("{:>9.3} ms: {WRITTEN} are written", env.now().ns as f64 / 1e6);

        drives[1].fail_now();
        println!("{:>9.3} ms: drive d1 has failed", env.now().ns as f64 / 1e6);

        let mut read = volume.read(ByteOffset(0), smallvec![Buf::unpooled(WRITTEN)]).await;
        read.result?;
        let back = read.buffers.pop().ok_or("the buffer did not come back")?;
        println!(
            "{:>9.3} ms: they are read, computed where d1 is missing",
            env.now().ns as f64 / 1e6
        );
        match back.bytes() == content {
            true => Ok(()),
            false => Err("what was read is not what was written".into()),
        }
    })?
}
