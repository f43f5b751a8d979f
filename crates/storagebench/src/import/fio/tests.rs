use super::*;
use crate::load::profile::Profile;

fn import(text: &str) -> (Vec<Profile>, Vec<String>) {
    let (group, notes) = import_fio("jobs.fio", text).unwrap_or_else(|error| panic!("{error}"));
    (group.entries.into_iter().flat_map(|entry| entry.profiles).collect(), notes)
}

#[test]
fn jobs_become_profiles_and_what_is_left_out_is_said_line_by_line() {
    let (profiles, notes) = import(
        "; a database\n[global]\nioengine=io_uring\ndirect=1\nruntime=60\ntime_based\nnorandommap\nbs=8k\n\n\
         [OLTP data]\nrw=randrw\nrwmixread=67\niodepth=32\nnumjobs=4\nfilename=/dev/sdz\n\n\
         [log]\nstonewall\nrw=write\nbs=64k\nunified_rw_reporting=1\n",
    );
    let lines: Vec<String> = profiles.iter().map(|p| format!("{}: {}", p.name(), p.description())).collect();
    assert_eq!(
        lines,
        [
            "oltp-data: random, 67% read, 8 KiB, 128 outstanding",
            "log: sequential, write, 64 KiB, 1 outstanding"
        ]
    );
    assert_eq!(
        notes,
        [
            "jobs.fio:4: 'direct=1' is left out: targets are always accessed directly where they can be",
            "jobs.fio:5: 'runtime=60' is left out: use --runtime when measuring",
            "jobs.fio:6: 'time_based' is left out: a measurement here always has a fixed time",
            "jobs.fio:15: 'filename=/dev/sdz' is left out: name the target when measuring",
            "jobs.fio:21: 'unified_rw_reporting=1' is left out: it has no counterpart here",
            "jobs.fio:10: 'OLTP data' becomes the load profile 'oltp-data'",
        ]
    );
}

#[test]
fn the_iometer_file_server_of_fios_examples_is_the_catalogs() {
    let (profiles, _) = import(
        "[global]\ndescription=Emulation of Intel IOmeter File Server Access Pattern\n\n[iometer]\n\
         bssplit=512/10:1k/5:2k/5:4k/60:8k/2:16k/4:32k/4:64k/10\nrw=randrw\nrwmixread=80\ndirect=1\nsize=4g\n\
         ioengine=libaio\niodepth=64\nblockalign=512\n",
    );
    let classic: Profile = "iometer-file-server".parse().unwrap();
    assert_eq!(profiles[0].blocks().len(), classic.blocks().len());
    for (block, other) in profiles[0].blocks().iter().zip(classic.blocks()) {
        assert!(block.bytes == other.bytes && (block.share - other.share).abs() < 1e-9);
    }
    assert_eq!((profiles[0].read_percent(), profiles[0].access()), (80, crate::Access::Random));
    assert_eq!(profiles[0].load().area.to_string(), "0..4G");
}

#[test]
fn every_option_that_is_taken_does_something() {
    for (options, description) in [
        ("rw=randread\nbs=4k,8k", "random, read, 4 KiB, 1 outstanding"),
        ("rw=randrw\nbs=4k,8k\nrwmixwrite=30", "random, 70% read, 4 KiB to 8 KiB, 1 outstanding"),
        ("rw=randwrite\nbssplit=4k/50:64k/:16k/", "random, write, 4 KiB to 64 KiB, 1 outstanding"),
        ("rw=randwrite\nbsrange=4k-16k", "random, write, 4 KiB to 16 KiB, 1 outstanding"),
        ("rw=randrw\npercentage_random=80", "80% random, 50% read, 4 KiB, 1 outstanding"),
        ("rw=randread\nrandom_distribution=zipf:1.2", "random, read, 4 KiB, Zipf 1.2, 1 outstanding"),
        (
            "rw=randread\nrandom_distribution=zoned:60/10:30/20:10/70",
            "random, read, 4 KiB, in 3 zones, 1 outstanding",
        ),
        (
            "rw=read\nnumjobs=8\noffset_increment=2g",
            "sequential, read, 4 KiB, 8 streams 2 GiB apart, 8 outstanding",
        ),
        (
            "rw=read\nthinktime=500\nthinktime_blocks=4",
            "sequential, read, 4 KiB, 500us pause after 4, 1 outstanding",
        ),
        (
            "rw=read\nrate_iops=100\nrate_process=poisson\nnumjobs=2",
            "sequential, read, 4 KiB, 200/s (poisson), 2 outstanding",
        ),
        (
            "rw=write\nbuffer_compress_percentage=50",
            "sequential, write, 4 KiB, 50% compressible, 1 outstanding",
        ),
        ("rw=write\nzero_buffers", "sequential, write, 4 KiB, 100% compressible, 1 outstanding"),
        ("rw=write\noffset=1g\nsize=1g", "sequential, write, 4 KiB, in 1G..2G, 1 outstanding"),
        ("rw=write\noffset=10%\nsize=25%", "sequential, write, 4 KiB, in 10%..35%, 1 outstanding"),
        (
            "readwrite=rw\nblocksize=1m\nioengine=libaio\niodepth=8",
            "sequential, 50% read, 1 MiB, 8 outstanding",
        ),
        ("rw=randread\nbs=64k ; large\nioengine=psync\niodepth=8", "random, read, 64 KiB, 1 outstanding"),
    ] {
        let (profiles, _) = import(&format!("[j]\n{options}\n"));
        assert_eq!(profiles[0].description(), description, "{options}");
    }
}

#[test]
fn what_is_read_differently_is_said() {
    for (options, note) in [
        ("rw=randread", "jobs.fio:1: fio visits every block once before any again"),
        ("rw=rw", "jobs.fio:1: fio keeps a place of its own"),
        ("rw=randread:8\nnorandommap", "jobs.fio:2: ':8' behind 'randread' is left out"),
        (
            "rw=randread\nrandom_distribution=pareto:0.3",
            "jobs.fio:3: the distribution 'pareto:0.3' has no counterpart",
        ),
        ("rw=read\nnumjobs=4", "jobs.fio:3: fio starts its 4 sequential jobs at the same place"),
        ("rw=read\niodepth=4", "jobs.fio:3: fio's engine 'psync' keeps one request outstanding"),
        ("rw=read\nrate_iops=4", "jobs.fio:3: fio limits the rate of a closed loop"),
        ("rw=read\nbsrange=4k-8k", "jobs.fio:3: 'bsrange=4k-8k' becomes the doublings"),
        ("include other.fio\nrw=read", "jobs.fio:2: 'include other.fio' is left out; import that file too"),
        ("rw=read\n[k]\nrw=read", "jobs.fio:3: fio runs the jobs j, k at the same time"),
    ] {
        let (_, notes) = import(&format!("[j]\n{options}\n"));
        assert!(notes.iter().any(|said| said.starts_with(note)), "{options}: {notes:?}");
    }
}

#[test]
fn a_wrong_job_is_named_with_its_line() {
    for (text, part) in [
        ("[global]\nrw=read\n", "jobs.fio:1: there is no job in this file"),
        ("rw=read\n", "jobs.fio:1: 'rw=read' stands before any section"),
        ("[j]\nrw=randtrim\n", "jobs.fio:2: 'rw=randtrim' is not understood; expected read, write"),
        ("[j]\nbs=big\n", "jobs.fio:2: 'bs=big' is not understood; expected sizes"),
        ("[j]\nbs=100\n", "jobs.fio:1: a block of 100 B cannot be requested"),
        ("[j]\nrw=randrw\nrwmixread=120\n", "jobs.fio:3: 'rwmixread=120' is not understood"),
        (
            "[j]\nbssplit=4k/60:8k/60\n",
            "jobs.fio:2: 'bssplit=4k/60:8k/60' is not understood; expected shares that make 100 %",
        ),
        ("[j]\niodepth=0\n", "jobs.fio:2: 'iodepth=0' is not understood; expected a whole number above 0"),
        ("[j]\noffset=1g\nsize=10%\n", "jobs.fio:3: 'size=10%' is not understood"),
    ] {
        let error = import_fio("jobs.fio", text).unwrap_err().to_string();
        assert!(error.contains(part), "{text}: {error}");
    }
}
