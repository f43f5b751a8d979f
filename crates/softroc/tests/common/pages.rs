//! The console for its tests: signed-in users, with curl and in a browser.

use super::browser::Browser;
use super::managed::{Managed, between, managed};

/// A controller with an optimal volume, and an account of each role.
pub fn served(name: &str) -> Managed {
    let managed = managed(name, &[]);
    managed.controller.volume("data", "raid5", 3);
    managed.controller.wait_optimal("data");
    for (account, role) in [("rita", "read-only"), ("otto", "operator"), ("ada", "administrator")] {
        managed.account(account, role);
    }
    managed
}

/// The result of curl with the cookies of a user, and its redirection.
pub fn curl(managed: &Managed, who: &str, arguments: &str, path: &str) -> (String, String) {
    managed.curl(&format!("-b {who}.jar -c {who}.jar -D {who}.head {arguments}"), path)
}

pub fn head(managed: &Managed, who: &str) -> String {
    std::fs::read_to_string(managed.controller.folder.file(&format!("{who}.head"))).expect("a head")
}

/// The token of the forms of a page.
pub fn token(page: &str) -> &str {
    between(page, "name=\"token\" value=\"", "\"")
}

/// Signs in as a browser does: the page, its form, its cookies. Returns the response to the form.
pub fn sign_in(managed: &Managed, name: &str) -> String {
    let (status, page) = curl(managed, name, "", "/console/sign-in");
    assert_eq!(status, "200", "{page}");
    let form = format!(
        "-d token={} -d account={name} --data-urlencode 'password=secret of {name}'",
        token(&page)
    );
    curl(managed, name, &form, "/console/sign-in").0
}

/// Sends a form of the console.
pub fn ask(managed: &Managed, who: &str, token: &str, form: &str) -> (String, String) {
    curl(managed, who, &format!("-d token={token} {form}"), "/console/do")
}

/// Signs in by keyboard only.
pub fn enter(browser: &mut Browser, managed: &Managed, path: &str) {
    browser.go(&format!("{}{path}", managed.address));
    browser.until("document.title.startsWith('Sign in')");
    for key in ["Tab", "Tab"] {
        browser.until("document.readyState === 'complete'");
        if browser.script("document.activeElement.name") != "account" {
            browser.press(key);
        }
    }
    browser.enter("ada");
    browser.press("Tab");
    browser.enter("secret of ada");
    browser.press("Enter");
    browser.until(
        "document.title.includes('·') && !document.title.startsWith('Sign in') && \
        document.readyState === 'complete'",
    );
}

pub const SENTENCE: &str = "document.querySelector('.sentence').textContent";
