//! The console, tested with curl and a browser: permissions, live updates of open pages,
//! appearance, and accessibility by axe-core.

mod common;

use common::browser::Browser;
use common::host::Host;
use common::managed::{Managed, address, between, managed};
use common::pages::{SENTENCE, ask, curl, enter, head, served, sign_in, token};
use common::{Controller, have, not_installed, run, until, until_long};
use std::path::Path;
use std::process::Command;

fn without_a_session_only_the_form_is_shown(managed: &Managed) {
    for path in [
        "/",
        "/console",
        "/console/",
        "/console/volume?of=data",
        "/console/events.csv",
        "/console/password",
    ] {
        let (status, body) = curl(managed, "nobody", "", path);
        assert_eq!((status.as_str(), body.as_str()), ("303", ""), "{path}");
    }
    let (_, live) = curl(managed, "nobody", "", "/console/live/");
    assert_eq!(live, "event: signed-out\ndata: sign in\n\n");
}

/// A sign-in form from another page lacks the cookie, or the token.
fn forms_of_other_pages_and_wrong_passwords_are_rejected(managed: &Managed) {
    let (_, page) = curl(managed, "other", "", "/console/sign-in");
    let form = format!(
        "-d token={} -d account=ada --data-urlencode 'password=secret of ada'",
        token(&page)
    );
    for (who, form) in
        [("nobody", form.as_str()), ("other", "-d account=ada -d 'password=secret of ada'")]
    {
        let (status, page) = curl(managed, who, form, "/console/sign-in");
        assert!(status == "403" && page.contains("open the page again"), "{who}: {status} {page}");
    }
    let wrong = format!("-d token={} -d account=ada -d password=wrong", token(&page));
    let (status, page) = curl(managed, "wrong", "", "/console/sign-in");
    assert_eq!(status, "200");
    let wrong = wrong.replace(between(&wrong, "token=", " "), token(&page));
    let (status, page) = curl(managed, "wrong", &wrong, "/console/sign-in");
    assert!(
        status == "401" && page.contains("the name or the password is wrong"),
        "{status} {page}"
    );
}

#[test]
fn nobody_sees_or_does_anything_without_signing_in_and_no_other_page_can() {
    if !have("curl") {
        return;
    }
    let managed = served("console-entrance");
    without_a_session_only_the_form_is_shown(&managed);
    forms_of_other_pages_and_wrong_passwords_are_rejected(&managed);
    assert_eq!(sign_in(&managed, "ada"), "303");
    let cookies = head(&managed, "ada").to_lowercase();
    let session = cookies.lines().find(|line| line.contains("softroc-session=")).expect("a cookie");
    for word in ["path=/console", "secure", "httponly", "samesite=strict"] {
        assert!(session.contains(word), "{word}: {session}");
    }
    // A form without the token of this session's pages, or from a page of another site, is
    // rejected.
    sign_in(&managed, "rita");
    let (_, others) = curl(&managed, "rita", "", "/console/volume?of=data");
    let delete = "-d verb=delete -d of=data -d word=data";
    let own = curl(&managed, "ada", "", "/console/volume?of=data").1;
    let elsewhere = format!("-H 'Origin: https://elsewhere' -d token={} {delete}", token(&own));
    for (form, expected) in [
        (delete.to_owned(), "403"),
        (format!("-d token=0 {delete}"), "403"),
        (format!("-d token={} {delete}", token(&others)), "403"),
        (elsewhere, "401"),
        (format!("-d token={} {delete}x", token(&own)), "400"),
    ] {
        let (status, page) = curl(&managed, "ada", &form, "/console/do");
        assert_eq!(status, expected, "{form}: {page}");
    }
    for path in ["/console/sign-out", "/console/password"] {
        assert_eq!(
            curl(&managed, "ada", "-d password=secret-of-eve -d again=secret-of-eve", path).0,
            "403",
            "{path}"
        );
    }
    managed.controller.wait_optimal("data");
    // The cookie is valid for the console only.
    assert_eq!(curl(&managed, "ada", "", "/v1/info").0, "401");
    assert_eq!(
        curl(&managed, "ada", &format!("-d token={}", token(&own)), "/console/sign-out").0,
        "303"
    );
    assert_eq!(curl(&managed, "ada", "", "/console/").0, "303");
}

/// Forms that need an operator.
const OPERATORS: &[&str] = &[
    "alarm-silence",
    "task-pause",
    "task-resume",
    "task-stop",
    "check",
    "repair",
    "flush",
    "start",
    "locate-on",
    "locate-off",
    "online",
    "resume",
    "alarm-on",
    "schedule-patrol",
    "schedule-check",
    "policy",
    "bench-run",
    "bench-stop",
    "predict-run",
    "predict-stop",
];

/// Forms that need an administrator.
const ADMINISTRATORS: &[&str] = &[
    "rename",
    "delete",
    "clear-failed",
    "forget",
    "spare-add",
    "spare-remove",
    "replace",
    "create",
    "notify-test",
    "notify-remove",
    "account-add",
    "account-enable",
    "account-disable",
    "account-unlock",
    "account-role",
    "account-password",
    "account-remove",
];

#[test]
fn a_role_may_in_the_console_what_it_may_elsewhere() {
    if !have("curl") {
        return;
    }
    let managed = served("console-roles");
    for (who, rank) in [("rita", 0), ("otto", 1), ("ada", 2)] {
        sign_in(&managed, who);
        let (status, page) = curl(&managed, who, "", "/console/");
        assert!(status == "200" && page.contains("All is well"), "{status} {page}");
        let token = token(&page);
        let verbs = OPERATORS.iter().map(|verb| (*verb, 1));
        let verbs = verbs.chain(ADMINISTRATORS.iter().map(|verb| (*verb, 2)));
        for (verb, least) in verbs {
            // For unknown objects: users with the permission see that error.
            let of = if verb.starts_with("task") { "99" } else { "nothing" };
            // A measurement that names a volume may overwrite its data: that needs an
            // administrator.
            let word = if verb == "bench-run" { "" } else { of };
            let form = format!(
                "-d token={token} -d verb={verb} -d of={of} -d word={word} -d policy=task-rate"
            );
            let (status, page) = curl(&managed, who, &form, "/console/do");
            assert_eq!(status == "403", rank < least, "{who} {verb}: {status}");
            let says =
                format!("&#39; takes {}", if least == 1 { "operator" } else { "administrator" });
            assert_eq!(page.contains(&says), rank < least, "{who} {verb}: {page}");
        }
    }
    let (_, page) = curl(&managed, "otto", "", "/console/volume?of=data");
    let form = format!(
        "-d token={} -d verb=check -d of=data -d back=/console/volume?of=data",
        token(&page)
    );
    assert_eq!(curl(&managed, "otto", &form, "/console/do").0, "303");
    assert!(head(&managed, "otto").contains("location: /console/volume?of=data&asked=check\r\n"));
    let events = managed.controller.softroc(&["events"]).ok();
    assert!(events.contains("otto (at 127.0.0.1:"), "{events}");
    assert!(!events.contains("rita (at"), "{events}");
}

#[test]
fn a_page_is_small_and_asks_nobody_else() {
    if !have("curl") {
        return;
    }
    let managed = served("console-size");
    sign_in(&managed, "ada");
    let mut bytes = 0;
    for path in [
        "/console/",
        "/console/assets/console.css",
        "/console/assets/console.js",
        "/console/assets/icon.svg",
    ] {
        let (status, body) = curl(&managed, "ada", "", path);
        let head = head(&managed, "ada");
        assert_eq!(status, "200", "{path}");
        assert!(
            head.contains("content-security-policy: default-src 'self'; ")
                && !head.contains("unsafe"),
            "{head}"
        );
        assert!(head.contains("x-content-type-options: nosniff"), "{head}");
        assert!(!body.replace("http://www.w3.org/2000/svg", "").contains("http"), "{path}: {body}");
        bytes += body.len() + head.len();
    }
    assert!(bytes < 100 << 10, "{bytes} bytes");
    // Without a browser, name and password give the same page.
    let (status, page) = managed.curl("-u 'rita:secret of rita'", "/console/volume?of=data");
    assert!(status == "200" && page.contains("<h1>Volume data</h1>"), "{status} {page}");
    let json = managed.curl("-u 'rita:secret of rita'", "/console/events.json").1;
    assert!(serde_json::from_str::<Vec<serde_json::Value>>(&json).expect("JSON").len() > 3);
}

#[test]
fn the_first_password_has_to_be_changed_first() {
    if !have("curl") {
        return;
    }
    let managed = managed("console-first", &[]);
    let (_, page) = curl(&managed, "admin", "", "/console/sign-in");
    let form =
        format!("-d token={} -d account=admin -d 'password={}'", token(&page), managed.password);
    assert_eq!(curl(&managed, "admin", &form, "/console/sign-in").0, "303");
    for path in ["/console/", "/console/events"] {
        assert_eq!(curl(&managed, "admin", "", path).0, "303", "{path}");
        assert!(head(&managed, "admin").contains("location: /console/password\r\n"), "{path}");
    }
    let (_, live) = curl(&managed, "admin", "--max-time 5", "/console/live/");
    assert!(!live.contains("parts"), "no update yet: {live}");
    let page = curl(&managed, "admin", "", "/console/password").1;
    let set = |again: &str| {
        format!("-d token={} -d 'password=a better one' -d 'again={again}'", token(&page))
    };
    assert_eq!(curl(&managed, "admin", &set("another one"), "/console/password").0, "400");
    assert_eq!(curl(&managed, "admin", &set("a better one"), "/console/password").0, "303");
    assert_eq!(curl(&managed, "admin", "", "/console/").0, "200");
}

#[test]
fn an_open_page_is_told_what_happens() {
    let mut managed = served("console-live");
    let Some(mut browser) = Browser::start(&managed.controller.folder.0.display().to_string())
    else {
        return;
    };
    enter(&mut browser, &managed, "/console/");
    browser.until("document.getElementById('pulse').textContent === 'Live.'");
    assert!(browser.script(SENTENCE).as_str().is_some_and(|said| said.starts_with("All is well")));
    // The page receives updates, and sends no requests.
    let asked = browser.asked_for().len();
    managed.controller.softroc(&["drive", "fail", "data:1"]).ok();
    browser.until(&format!("{SENTENCE}.includes('degraded')"));
    browser.until("document.title.startsWith('✖') && document.querySelector('#out h3') !== null");
    assert_eq!(browser.asked_for()[asked..], Vec::<String>::new());
    // Typed text stays when the page is updated.
    browser.go(&format!("{}/console/volume?of=data", managed.address));
    browser.until("document.getElementById('pulse').textContent === 'Live.'");
    browser.script("document.querySelector('[value=rename] ~ label input').focus()");
    browser.enter("dat");
    managed.controller.softroc(&["volume", "set", "data", "--task-rate", "40%"]).ok();
    browser.until("document.getElementById('policies').textContent.includes('40')");
    assert_eq!(browser.script("document.activeElement.value"), "dat");
    // A restarted controller has no sessions: the page says so, and leads back to itself.
    let port = managed.address.rsplit(':').next().expect("a port").to_owned();
    managed.controller.stop();
    managed.controller.arguments = vec!["--manage".to_owned(), format!("127.0.0.1:{port}")];
    managed.controller.start();
    managed.address = address(&managed.controller.log());
    browser.until(
        "!document.getElementById('stale').hidden && document.querySelector('#stale a') !== null",
    );
    let link = browser.script("document.querySelector('#stale a').getAttribute('href')");
    assert_eq!(link, "/console/sign-in?ended=yes&back=%2Fconsole%2Fvolume%3Fof%3Ddata");
    let said = browser.script("document.getElementById('stale').textContent");
    assert!(
        said.as_str().is_some_and(|said| said.contains("when the controller restarts")),
        "{said}"
    );
    browser.go(&format!("{}{}", managed.address, link.as_str().expect("a link")));
    browser.until("document.body.textContent.includes('You are signed out. A session ends when')");
    enter(&mut browser, &managed, link.as_str().expect("a link"));
    browser.until("document.querySelector('h1').textContent === 'Volume data'");
}

/// Moves by keyboard to the element with that text.
fn reach(browser: &mut Browser, what: &str) {
    let says = format!("document.activeElement.textContent.trim() === {}", serde_json::json!(what));
    for _ in 0..100 {
        if browser.script(&says) == true {
            return;
        }
        browser.press("Tab");
    }
    panic!("'{what}' is not reached by keys alone");
}

/// The page can be left and reopened.
fn a_working_drive_is_replaced_by_its_serial_number_only(browser: &mut Browser, managed: &Managed) {
    let folder = &managed.controller.folder;
    managed
        .controller
        .softroc(&["drive", "add", "--create", common::DRIVE, &folder.file("more.img")])
        .ok();
    browser.go(&format!("{}/console/replace?of=data:2", managed.address));
    reach(browser, &format!("Replace data:2 by {}", folder.file("more.img")));
    browser.press("Enter");
    assert_eq!(browser.script("document.activeElement.name"), "word", "it has to be typed");
    browser.enter("something else");
    browser.press("Enter");
    browser.until("document.title.startsWith('Refused')");
    assert_eq!(managed.controller.show("data")["drives"][2]["name"], folder.file("d2.img"));
}

/// The whole procedure: a drive is pulled while a page is open, and replaced; without a mouse, and
/// without a reload.
#[test]
fn a_drive_is_replaced_by_keys_alone() {
    let managed = served("console-replace");
    let folder = &managed.controller.folder;
    let Some(mut browser) = Browser::start(&folder.0.display().to_string()) else { return };
    enter(&mut browser, &managed, "/console/");
    let live = "document.getElementById('pulse').textContent === 'Live.'";
    browser.until(live);
    let asked = browser.asked_for().len();
    // The drive is pulled: its name is gone, and its open file is closed.
    std::fs::rename(folder.file("d1.img"), folder.file("away.img")).expect("it is moved");
    let away =
        std::fs::File::options().write(true).open(folder.file("away.img")).expect("it is there");
    away.set_len(0).expect("it is truncated");
    let mut host = Host::connect(&managed.controller.nbd_socket(), "data").expect("it is served");
    until("a host is served without it", || {
        host.read(0, 1 << 20).expect("it is read");
        managed.controller.show("data")["state"] == "degraded"
    });
    browser.until(&format!("{SENTENCE}.includes('degraded')"));
    assert_eq!(
        browser.asked_for()[asked..],
        Vec::<String>::new(),
        "it receives updates, and sends no requests"
    );
    browser.until("document.querySelector('#out h3') !== null");
    reach(&mut browser, "Replace it, step by step");
    browser.press("Enter");
    browser.until(&format!("document.title.includes('Replace a drive') && {live}"));
    assert_eq!(browser.script("document.querySelector('h1').textContent"), "Replace drive data:1");
    assert_eq!(
        browser.script("document.querySelector('#given h2').textContent"),
        "Insert the new drive"
    );
    // A new drive is added, and shown at once.
    let (asked, new) = (browser.asked_for().len(), folder.file("new.img"));
    managed.controller.softroc(&["drive", "add", "--create", common::DRIVE, &new]).ok();
    let button = format!("Replace data:1 by {new}");
    browser.until(&format!("document.getElementById('given').textContent.includes('{button}')"));
    assert_eq!(
        browser.asked_for()[asked..],
        Vec::<String>::new(),
        "it receives updates, and sends no requests"
    );
    reach(&mut browser, &button);
    browser.press("Enter");
    browser.until(&format!("location.search.includes('asked=replace') && {live}"));
    browser.until(
        "document.getElementById('replace').textContent.includes('Done: the new drive is \
            complete')",
    );
    managed.controller.wait_optimal("data");
    assert_eq!(managed.controller.show("data")["drives"][1]["name"], new);
    a_working_drive_is_replaced_by_its_serial_number_only(&mut browser, &managed);
    let complaints = browser.complaints();
    // The response to the typed text is 400; the browser complains about it.
    let complaints: Vec<&String> =
        complaints.iter().filter(|one| !one.contains("console/do")).collect();
    assert!(complaints.is_empty(), "{complaints:#?}");
}

/// The predicted properties of a new volume match the created one; the predicted cost of reads
/// matches `explain`.
#[test]
fn what_would_be_is_what_comes() {
    if !have("curl") {
        return;
    }
    let managed = served("console-plans");
    sign_in(&managed, "ada");
    let new = chosen(&unused(&managed, 'n', 3));
    let (_, page) = curl(&managed, "ada", "", &format!("/console/create?{new}&level=raid5"));
    let capacity = between(&page, "<dt>Usable capacity</dt><dd>", "<");
    let drives: String = new.split('&').map(|drive| format!(" -d {drive}")).collect();
    let create = format!("-d verb=create -d of=raid5 -d level=raid5 -d name=made{drives}");
    let (status, said) = ask(&managed, "ada", token(&page), &create);
    assert_eq!(status, "303", "{said}");
    assert!(head(&managed, "ada").contains("location: /console/volume?of=made&asked=create\r\n"));
    assert_eq!(units::ByteCount(managed.controller.capacity("made")).to_string(), capacity);
    // Cost of a read without drive 1.
    let (_, page) = curl(&managed, "ada", "", "/console/what-if?of=data&fail=1");
    let strip = managed.controller.show("data")["strip_bytes"].as_u64().expect("a strip");
    let cost = |strip_number: u64| {
        let range = format!("4K@{}", strip_number * strip);
        let words = ["explain", "--volume", "data", "--failed", "1", "read", &range];
        managed.controller.json(&words)["explanation"]["cost"]["reads"].as_u64().expect("a number")
    };
    let dear = (0..16).filter(|number| cost(*number) == 2).count();
    assert!((1..16).contains(&dear), "{dear}");
    let said = format!("{} need 1 drive read, {dear} need 2 drive reads; mean", 16 - dear);
    assert!(page.contains(&said), "no '{said}' in {page}");
    assert!(page.contains("&#39;data&#39; stays online without data loss."), "{page}");
    let (_, page) = curl(&managed, "ada", "", "/console/what-if?of=data&fail=1&fail=2");
    assert!(page.contains("&#39;data&#39; goes offline: hosts cannot access its"), "{page}");
}

/// Accounts, schedules, policies and channels by the pages' forms only.
#[test]
fn a_controller_is_kept_in_order_from_its_pages() {
    if !have("curl") {
        return;
    }
    let managed = served("console-upkeep");
    sign_in(&managed, "ada");
    let token = token(&curl(&managed, "ada", "", "/console/maintenance").1).to_owned();
    let (status, page) =
        ask(&managed, "ada", &token, "-d verb=account-add -d name=eve -d role=operator");
    assert_eq!(status, "200", "{page}");
    let password = between(&page, "first sign-in: ", "<").to_owned();
    let (_, page) = curl(&managed, "ada", "", "/console/maintenance");
    assert!(page.contains("<h3>eve</h3>") && !page.contains(&password), "it is shown once: {page}");
    let entrance = curl(&managed, "eve", "", "/console/sign-in").1;
    let form = format!("-d token={} -d account=eve -d password={password}", self::token(&entrance));
    assert_eq!(curl(&managed, "eve", &form, "/console/sign-in").0, "303");
    assert!(head(&managed, "eve").contains("location: /console/password\r\n"));
    let done = |form: &str| assert_eq!(ask(&managed, "ada", &token, form).0, "303", "{form}");
    done("-d verb=schedule-check -d of=data -d on=on -d every=28 -d at=03:30");
    let schedules = managed.controller.softroc(&["task", "schedule", "list"]).ok();
    assert!(schedules.contains("03:30"), "{schedules}");
    done("-d verb=policy -d of=data -d policy=task-rate -d value=40");
    assert!(managed.controller.softroc(&["volume", "show", "data"]).ok().contains("40 %"));
    let told = managed.controller.folder.file("told");
    let program = managed.controller.folder.file("hook");
    std::fs::write(&program, format!("#!/bin/sh\ncat >>{told}\n")).expect("a program");
    run("chmod", &["700", &program]);
    managed.controller.softroc(&["notify", "set", "hook", &format!("hook:{program}")]).ok();
    done("-d verb=notify-test -d of=hook");
    let told = std::fs::read_to_string(&told).expect("a notification");
    assert!(told.contains("notify.test") && told.contains("ada"), "{told}");
    done("-d verb=notify-remove -d of=hook");
    done("-d verb=account-remove -d of=eve -d word=eve");
    assert!(!managed.controller.softroc(&["account", "list"]).ok().contains("eve"));
}

/// The content of a new drive is shown before the confirmation, and updated on changes. A message
/// of the controller about an action is shown once, on the next page.
#[test]
fn what_drives_hold_and_what_is_worth_knowing_is_said() {
    if !have("curl") {
        return;
    }
    let managed = served("console-holds");
    sign_in(&managed, "ada");
    unused(&managed, 'n', 1);
    let create = || curl(&managed, "ada", "", "/console/create").1;
    assert!(create().contains("n0.img") && !create().contains("▲ holds"), "{}", create());
    // Swap space, as mkswap writes it.
    let held = managed.controller.folder.file("swap.img");
    let mut bytes = vec![0; 48 << 20];
    bytes[4086..4096].copy_from_slice(b"SWAPSPACE2");
    std::fs::write(&held, &bytes).expect("a file");
    managed.controller.softroc(&["drive", "add", &held]).ok();
    let page = create();
    assert!(page.contains("▲ holds Linux swap space"), "{page}");
    assert_eq!(page.matches("▲ holds").count(), 1, "{page}");
    let told = managed.controller.softroc(&["foreign", "list"]).ok();
    assert!(told.contains("swap"), "{told}");
    let (_, page) = curl(&managed, "ada", "", "/console/replace?of=data:1");
    assert!(page.contains("Not empty: ") && page.contains("swap"), "{page}");
    // Two volumes on one array.
    let drives = unused(&managed, 'p', 3);
    let mut make = vec!["volume", "create", "one", "--level", "raid5", "--size", "4M", "--drives"];
    make.extend(drives.iter().map(String::as_str));
    managed.controller.softroc(&make).ok();
    managed
        .controller
        .softroc(&["volume", "create", "two", "--level", "raid5", "--size", "4M", "--array", "one"])
        .ok();
    let (_, page) = curl(&managed, "ada", "", "/console/volume?of=one");
    assert!(page.contains("Policies of the array apply to all its volumes: one, two."), "{page}");
    let set =
        "-d verb=policy -d of=one -d policy=task-rate -d value=40 -d back=/console/volume?of=one";
    assert_eq!(ask(&managed, "ada", token(&page), set).0, "303");
    let next = || curl(&managed, "ada", "", "/console/volume?of=one&asked=policy").1;
    let page = next();
    assert!(page.contains("▲ This concerns all volumes of the array: "), "{page}");
    assert!(!next().contains("▲ This concerns"), "it is shown once");
}

/// The path of axe-core, if installed.
fn axe() -> Option<String> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/axe-core/axe.min.js");
    let axe = std::fs::read_to_string(file).ok();
    if axe.is_none() {
        not_installed("axe-core");
    }
    axe
}

/// The serious and critical violations that axe-core finds in the page.
fn violations(browser: &mut Browser) -> serde_json::Value {
    browser.script(
        "axe.run().then((found) => found.violations \
           .filter((one) => ['serious', 'critical'].includes(one.impact)) \
           .map((one) => one.id + ': ' + \
           one.nodes.map((node) => node.html + ' ' + node.failureSummary).join('; ')))",
    )
}

/// New, unused drives.
fn unused(managed: &Managed, letter: char, count: usize) -> Vec<String> {
    let name = |number| managed.controller.folder.file(&format!("{letter}{number}.img"));
    let drives: Vec<String> = (0..count).map(name).collect();
    let mut add = vec!["drive", "add", "--create", common::DRIVE];
    add.extend(drives.iter().map(String::as_str));
    managed.controller.softroc(&add).ok();
    drives
}

/// Drives in the address of the page for new volumes.
fn chosen(drives: &[String]) -> String {
    let named = |name: &String| format!("drive={}", name.replace('/', "%2F"));
    drives.iter().map(named).collect::<Vec<_>>().join("&")
}

/// Measures a volume, and predicts another controller, so that pages have all their parts.
fn compare(managed: &Managed, volume: &str) {
    if !have("curl") {
        return;
    }
    sign_in(managed, "otto");
    let page = || curl(managed, "otto", "", "/console/bench").1;
    let token = token(&page()).to_owned();
    let load = "-d profile=random-read -d outstanding=1,8";
    let run = format!("-d verb=bench-run -d of={volume} -d runtime=300ms {load}");
    let models = "-d controller=HBA -d drive=SAS-12G-SSD -d level=raid6 -d drives=4";
    let predict = format!("-d verb=predict-run -d of={volume} {models} {load}");
    for form in [run, predict] {
        let (status, said) = ask(managed, "otto", &token, &form);
        assert_eq!(status, "303", "{said}");
    }
    // Low frequency: predictions have a low priority.
    until_long("both are there", || {
        std::thread::sleep(std::time::Duration::from_millis(500));
        page().contains("random-read, 8 outstanding")
    });
}

/// All pages with all their parts. `new`: unused drives, as in an address.
fn pages(managed: &Managed, new: &str) -> Vec<(&'static str, String)> {
    let drive = managed.controller.show("data")["drives"][1]["name"]
        .as_str()
        .expect("a name")
        .replace('/', "%2F");
    vec![
        ("overview", "/console/".to_owned()),
        ("volume", "/console/volume?of=data".to_owned()),
        ("drive", format!("/console/drive?of={drive}")),
        ("replace", "/console/replace".to_owned()),
        ("create", format!("/console/create?{new}&level=raid5")),
        (
            "predicted",
            format!("/console/create?{new}&level=raid5&controller=HBA&model=SAS-12G-SSD"),
        ),
        ("bench", "/console/bench?of=more".to_owned()),
        (
            "what-if",
            "/console/what-if?of=more&fail=0&fail=3&controller=HBA&model=SAS-12G-SSD".to_owned(),
        ),
        ("maintenance", "/console/maintenance".to_owned()),
        ("events", "/console/events?severity=warning".to_owned()),
        ("password", "/console/password".to_owned()),
        ("nothing", "/console/volume?of=nothing".to_owned()),
    ]
}

#[test]
fn everybody_can_read_every_page() {
    let managed = served("console-looks");
    let folder = managed.controller.folder.0.display().to_string();
    let Some(mut browser) = Browser::start(&folder) else { return };
    let axe = axe();
    let pictures = std::env::var("CONSOLE_PICTURES").ok();
    enter(&mut browser, &managed, "/console/");
    managed.controller.softroc(&["drive", "fail", "data:1"]).ok();
    until("the volume is degraded", || managed.controller.show("data")["state"] == "degraded");
    let new = chosen(&unused(&managed, 'n', 3));
    managed.controller.create("more", "raid6", &unused(&managed, 'm', 4)).ok();
    compare(&managed, "more");
    let pages = pages(&managed, &new);
    for (name, path) in &pages {
        for (width, scheme) in
            [(1440, "light"), (1440, "dark"), (390, "light"), (390, "dark"), (360, "light")]
        {
            browser.look(width, scheme);
            browser.go(&format!("{}{path}", managed.address));
            let overflow =
                browser.script("document.documentElement.scrollWidth - window.innerWidth");
            assert!(
                overflow.as_i64().is_some_and(|more| more <= 0),
                "{name} at {width} is too wide: {overflow}"
            );
            if let Some(pictures) = &pictures {
                let encoded = format!("{pictures}/{name}-{width}-{scheme}.b64");
                std::fs::write(&encoded, browser.picture()).expect("a folder");
            }
            if let Some(axe) = &axe {
                browser.script(&format!("{axe}; 0"));
                let found = violations(&mut browser);
                assert_eq!(found, serde_json::json!([]), "{name} at {width}, {scheme}");
            }
        }
    }
    if axe.is_some() {
        browser.script("document.body.insertAdjacentHTML('beforeend', '<input>'); 0");
        assert_ne!(
            violations(&mut browser),
            serde_json::json!([]),
            "a field without a name is found"
        );
    }
    let complaints = browser.complaints();
    // The page of an unknown volume has status 404; the browser complains about it.
    let complaints: Vec<&String> =
        complaints.iter().filter(|one| !one.contains("of=nothing")).collect();
    assert!(complaints.is_empty(), "{complaints:#?}");
    let elsewhere: Vec<String> = browser
        .asked_for()
        .into_iter()
        .filter(|one| !one.starts_with(&managed.address) && one != "about:blank")
        .collect();
    assert!(elsewhere.is_empty(), "{elsewhere:?}");
}

/// Regression: a page opened by the control socket kept the controller from stopping: its stream
/// waited for a response that could not come.
#[test]
fn an_open_page_keeps_no_controller_from_ending() {
    if !have("curl") {
        return;
    }
    let mut controller = Controller::new("console-ends");
    let (socket, told) =
        (controller.folder.file("state/control.sock"), controller.folder.file("told"));
    let mut open = Command::new("curl")
        .args(["-sN", "--unix-socket", &socket, "-o", &told, "http://localhost/console/live/"])
        .spawn()
        .expect("curl starts");
    until("the page is updated", || std::fs::metadata(&told).is_ok_and(|told| told.len() > 0));
    let stat = format!("/proc/{}/stat", controller.pid());
    run("kill", &["-TERM", &controller.pid().to_string()]);
    until("it has ended", || {
        std::fs::read_to_string(&stat).is_ok_and(|stat| stat.contains(") Z "))
    });
    controller.stop();
    open.wait().expect("curl ends with it");
}
