//! Whole stripes are not kept in the journal: what that must not cost.

mod common;

use common::Bench;
use env::{Buf, Durability};
use units::{ByteCount, ByteOffset, ByteRange};

const STRIP: u64 = 64 << 10;

/// A durable write of a few blocks was acknowledged into a stripe that had been written as a whole, which nobody had flushed. The
/// power was cut, and a drive died with it. The record gave back the blocks and their parity; but that parity stood for what the
/// whole stripe had been given on the other drives, of which their caches had lost a part: the durable blocks, on the drive
/// that died, read as garbage. What is in a stripe without a record is flushed before a record in it promises anything.
#[test]
fn a_durable_write_into_a_whole_stripe_outlives_the_power_and_a_drive() {
    for seed in 0..40 {
        let mut bench = Bench::new(seed, 1, 4);
        bench.boot(&[]);
        bench.create("data", "raid5", &["a", "b", "c", "d"]);
        bench.settle("data");
        bench.write("data", 0, 1, 3 * STRIP);
        bench.settle("data");
        bench.write("data", 0, 2, 3 * STRIP);
        let volume = bench.shards[0].volume_named("data").expect("the volume is served");
        let (range, data) =
            (ByteRange::new(ByteOffset(0), ByteCount(8192)), Buf::copy_of(&[3; 8192]).freeze());
        let written = bench.sim.run(async move { volume.write(range, data, Durability::Durable).await });
        written.expect("it ends").expect("it is acknowledged");
        bench.forget();
        bench.sim.power_cut();
        bench.sim.restart_process();
        // The first strip of the first stripe lies there.
        bench.sim.drive("a").expect("it is there").vanish();
        bench.boot(&[]);
        bench.expect("data", 0, 3, 8192);
    }
}
