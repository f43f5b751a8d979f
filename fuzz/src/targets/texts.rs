//! Texts: files of other programs and of users, and words of the command line that also occur in
//! files.

use layout::Level;
use nbd::NbdUri;
use std::fmt::{Debug, Display};
use std::str::FromStr;
use storagebench::{
    Area, Catalog, Group, JobHost, Ladder, Plot, Precondition, Profile, Results, compare,
    import_fio, import_icf, merge,
};
use units::{ByteCount, ByteOffset, StripSize};

pub(super) const LABEL: &[&str] = &[
    "[[member]]\n",
    "[[volume]]\n",
    "stale = ",
    "uuid = ",
    "generation = ",
    "0..4294967295",
    "\"online\"",
    "confirmed = 0\n",
    "[array.volume.reshape]\n",
    "[array.volume.part]\n",
    "moved_bytes = ",
    "begun = true\n",
    "members = 2\n",
];
pub(super) const LOG_DEVICE: &[&str] = &[
    "[[devices]]\n",
    "[[place]]\n",
    "uuid = ",
    "volume = ",
    "start_bytes = 1048576\n",
    "len_bytes = 4096\n",
    "generation = 2\n",
    "18446744073709551615",
];
pub(super) const ADDRESS: &[&str] = &[
    "nbd://",
    "nbd+unix:///",
    "?socket=",
    "%2F",
    "[::1]:10809",
    "localhost",
    "/export",
    "KiB",
    "18446744073709551615",
    "1.5G",
];
pub(super) const FIO: &[&str] = &[
    "[global]\n",
    "[job]\n",
    "rw=",
    "randrw\n",
    "bs=",
    "4k,64k\n",
    "bssplit=4k/50:8k/50\n",
    "rwmixread=70\n",
    "iodepth=32\n",
    "random_distribution=zipf:1.2\n",
    "percentage_random=40\n",
    "rate_iops=1000\n",
    "numjobs=4\n",
    "size=18446744073709551615\n",
    "thinktime=100\n",
    "bsrange=1k-1m\n",
    "random_distribution=zoned_abs:60/1G:40/2G\n",
    "random_distribution=zoned:50/5:30/15:20/,60/40:40/\n",
    "random_distribution=pareto:0.2,normal:10\n",
    "include more.fio\n",
    "offset_increment=25%\n",
    "${SIZE}",
    "$pagesize",
    "$ncpus*2",
    "(4*(1k+1))^2",
    "kb_base=1000\n",
    "rate=1250k,1m\n",
    "runtime=60\nramp_time=5m\n",
    "\u{FEFF}",
    "KiB",
    "blockalign=4k\n",
    "offset=50%\n",
    "stonewall\n",
    "%",
];
pub(super) const ICF: &[&str] = &[
    "Version 1.1.0 \n",
    "'ACCESS SPECIFICATIONS ====\n",
    "'Access specification name,default assignment\n",
    "\tname,NONE\n",
    "'size,% of size,% reads,% random,delay,burst,align,reply\n",
    "\t4096,100,67,100,0,1,0,0\n",
    "'End access specifications\n",
    "4294967295",
    ",-1,",
    "'End ",
    "'TEST SETUP ====\n",
    "'Run Time\n'\thours      minutes    seconds\n\t0 1 0\n",
    "'Queue Depth Cycling\n'\tstart      end        step       step type\n\t1 32 2 EXPONENTIAL\n",
    "'Test Type\n\tCYCLE_OUTSTANDING_IOS\n",
    "'MANAGER LIST ====\n",
    "'Worker\n\tWorker 1\n",
    "'Number of outstanding IOs,test connection rate\n\t16,DISABLED,1\n",
    "'Disk maximum size,starting sector\n\t2048,64\n",
    "'Assigned access specs\n\tname\n",
    "'Target\n\tC:\n",
];
pub(super) const CATALOG: &[&str] = &[
    "group = \"x\"\n",
    "prose = \"\"\n",
    "[[workload]]\n",
    "name = \"a\"\n",
    "random = 100\n",
    "read = 50\n",
    "block = \"4K\"\n",
    "blocks = { \"4K\" = 30, \"8K\" = 70 }\n",
    "hot = \"80%:16G\"\n",
    "pareto = 0.2\n",
    "normal = \"10%\"\n",
    "area = \"1G..1G+20%\"\n",
    "runtime = \"60s\"\nramp = \"0s\"\n",
    "rate = \"5000/s\"\n",
    "[[workload.component]]\n",
    "share = ",
    "family = ",
    "nan",
    "1e300",
    "-0.0",
    "99999999999999999999",
];
pub(super) const PROFILE: &[&str] = &[
    "random",
    "sequential",
    "%read",
    ",8K",
    "67%",
    "rate=5000/s",
    "zipf=1.2",
    "hot=80%:16G",
    "align=4K",
    "burst=",
    "think=10us",
    "NaN",
    "database",
    "1e400",
    "18446744073709551616K",
    "think=",
];
pub(super) const RESULTS: &[&str] = &[
    "\"rows\":",
    "\"iops\":",
    "1e308",
    "-1",
    "null",
    "\"outstanding\":4294967295",
    "\"histogram\":",
    "HISTFAAAA",
    "[]",
    "{}",
    "\"detail\":",
    "1e-320",
    "18446744073709551615",
];

fn text(input: &[u8]) -> String {
    String::from_utf8_lossy(input).into_owned()
}

/// An imported load is written as a catalog file with the same content.
fn same_as_file(group: &Group) {
    let file = group.to_toml();
    let mut catalog = Catalog::default();
    let read = catalog.read("imported.toml", &file);
    assert!(read.is_ok(), "{read:?} of\n{file}");
    let profiles: Vec<Profile> = catalog.groups()[0].profiles();
    assert!(profiles.len() == group.profiles().len());
    for (before, after) in group.profiles().iter().zip(&profiles) {
        let name = before.name().to_ascii_lowercase();
        assert_eq!(
            (&*name, before.description()),
            (after.name(), after.description()),
            "of\n{file}"
        );
    }
    group.profiles().iter().for_each(described);
}

fn described(profile: &Profile) {
    let kinds: f64 = profile.kinds().iter().map(|(share, _)| share).sum();
    assert!((kinds - 1.0).abs() < 1e-6, "shares add up to {kinds}");
    assert!(profile.largest_block().0 > 0 && profile.mean_block_bytes() > 0.0);
    assert!(profile.read_percent() <= 100);
    let rungs = profile.rungs(&Ladder::default());
    assert!(rungs.len() <= 4096);
}

/// A host whose included files are copies of the job file, without its sections.
struct Included<'a>(&'a [u8]);

impl JobHost for Included<'_> {
    fn read(&self, path: &str) -> Result<Vec<u8>, String> {
        if path.contains("none") {
            return Err("no such file".to_owned());
        }
        Ok(self.0.iter().copied().filter(|byte| *byte != b'[').collect())
    }

    fn variable(&self, name: &str) -> Option<String> {
        name.starts_with('S').then(|| "64k,8k".to_owned())
    }

    fn page_size(&self) -> u64 {
        4096
    }

    fn processors(&self) -> u64 {
        2
    }

    fn memory_mib(&self) -> u64 {
        2048
    }
}

/// Job files of fio, with their include files.
pub(super) fn fio(input: &[u8]) {
    if let Ok((group, _)) = import_fio("job.fio", input, &Included(input)) {
        same_as_file(&group);
    }
}

/// Configurations of Iometer.
pub(super) fn icf(input: &[u8]) {
    if let Ok((group, _)) = import_icf("iometer.icf", input) {
        same_as_file(&group);
    }
}

/// Files of the catalog of workloads.
pub(super) fn catalog(input: &[u8]) {
    let mut catalog = Catalog::default();
    if catalog.read("own.toml", &text(input)).is_ok() {
        catalog.groups().iter().for_each(same_as_file);
    }
}

/// Load profiles in one line.
pub(super) fn profile(input: &[u8]) {
    if let Ok(profiles) = Catalog::builtin().select(&text(input)) {
        profiles.iter().for_each(described);
    }
}

/// Files of results, which come from other computers and are compared and merged.
pub(super) fn results(input: &[u8]) {
    let Ok(results) = Results::from_json(&text(input)) else { return };
    let json = results.to_json();
    let again = Results::from_json(&json).expect("encoded results are decoded");
    assert!(again.to_json() == json, "encoded results decode differently");
    let _ = results.to_csv();
    for comparison in compare(&[("one".into(), &results), ("other".into(), &again)]).comparisons {
        let _ = comparison.profiles;
    }
    let mut other = again;
    other.rows.iter_mut().for_each(|row| row.target.push('2'));
    let _ = merge(&[("one".into(), results), ("other".into(), other)]);
}

/// A parsed value is shown in a form that parses to the same value.
fn comes_back<T: FromStr + Display + PartialEq + Debug>(text: &str) {
    if let Ok(value) = text.parse::<T>() {
        let shown = value.to_string();
        assert!(
            shown.parse::<T>().is_ok_and(|again| again == value),
            "'{text}' is {value:?}, shown as '{shown}'"
        );
    }
}

/// Words: addresses, sizes, levels, ladders.
pub(super) fn words(input: &[u8]) {
    let text = text(input);
    comes_back::<NbdUri>(&text);
    comes_back::<Ladder>(&text);
    comes_back::<Area>(&text);
    let _ = (text.parse::<ByteCount>(), text.parse::<ByteOffset>(), text.parse::<StripSize>());
    let _ = (text.parse::<Level>(), text.parse::<Plot>(), text.parse::<Precondition>());
    let _ = NbdUri::looks_like(&text);
}
