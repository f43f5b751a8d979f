//! A headless browser (Chromium), driven by its own protocol over two pipes.

use super::have;
use serde_json::{Value, json};
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

/// The time limit of a response on a busy computer.
const TIMEOUT: Duration = Duration::from_secs(120);

/// A page in its own browser.
pub struct Browser {
    child: Child,
    requests: File,
    answers: Receiver<Value>,
    next: u64,
    session: Option<String>,
    /// Events of the browser, in order.
    told: Vec<Value>,
}

impl Browser {
    /// Starts a browser, with its files in a folder. `None`: none is installed.
    pub fn start(folder: &str) -> Option<Browser> {
        if !have("chromium") {
            return None;
        }
        let (requests, answers) = (format!("{folder}/requests"), format!("{folder}/answers"));
        super::run("mkfifo", &[&requests, &answers]);
        let options = "--headless=new --no-sandbox --disable-gpu --disable-dev-shm-usage \
            --no-first-run --disable-background-networking --disable-component-update \
            --ignore-certificate-errors --remote-debugging-pipe";
        let line = format!(
            "exec chromium {options} --user-data-dir='{folder}/profile' about:blank 3<'{requests}' \
                4>'{answers}' 2>'{folder}/chromium.log'"
        );
        let child = Command::new("sh")
            .args(["-c", &line])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .expect("a shell");
        let requests = OpenOptions::new().write(true).open(&requests).expect("the browser reads");
        let mut output = BufReader::new(File::open(&answers).expect("the browser writes"));
        let (sender, answers) = channel();
        std::thread::spawn(move || {
            let mut message = Vec::new();
            while output.read_until(0, &mut message).is_ok_and(|length| length > 0) {
                message.pop_if(|last| *last == 0);
                let value = serde_json::from_slice(&message).expect("messages are JSON");
                message.clear();
                if sender.send(value).is_err() {
                    return;
                }
            }
        });
        let mut browser =
            Browser { child, requests, answers, next: 1, session: None, told: Vec::new() };
        let target = browser.ask("Target.createTarget", json!({ "url": "about:blank" }));
        let attach = json!({ "targetId": target["targetId"], "flatten": true });
        let attached = browser.ask("Target.attachToTarget", attach);
        browser.session = attached["sessionId"].as_str().map(str::to_owned);
        for domain in ["Page", "Runtime", "Network", "Log"] {
            browser.ask(&format!("{domain}.enable"), json!({}));
        }
        Some(browser)
    }

    fn receive(&mut self) -> Value {
        self.answers.recv_timeout(TIMEOUT).expect("the browser answers")
    }

    /// Sends a request to the browser.
    pub fn ask(&mut self, method: &str, parameters: Value) -> Value {
        self.try_ask(method, parameters).unwrap_or_else(|error| panic!("{method}: {error}"))
    }

    /// Sends a request to the browser that may fail, with the reason.
    fn try_ask(&mut self, method: &str, parameters: Value) -> Result<Value, Value> {
        let id = self.next;
        self.next += 1;
        let mut message = json!({ "id": id, "method": method, "params": parameters });
        if let Some(session) = &self.session {
            message["sessionId"] = session.as_str().into();
        }
        self.requests
            .write_all(format!("{message}\0").as_bytes())
            .expect("the browser takes requests");
        loop {
            let mut answer = self.receive();
            if answer["id"] == id {
                let refused = !answer["error"].is_null();
                return if refused {
                    Err(answer["error"].take())
                } else {
                    Ok(answer["result"].take())
                };
            }
            self.told.push(answer);
        }
    }

    /// The result of a script in the page.
    pub fn script(&mut self, expression: &str) -> Value {
        let parameters =
            json!({ "expression": expression, "awaitPromise": true, "returnByValue": true });
        let mut result = self.ask("Runtime.evaluate", parameters);
        assert!(result["exceptionDetails"].is_null(), "{expression}: {result}");
        result["result"]["value"].take()
    }

    /// Waits until a script in the page returns `true`.
    pub fn until(&mut self, expression: &str) {
        // A page that is being left returns nothing, or aborts its script; this is the only
        // accepted error.
        super::until(expression, || {
            let parameters = json!({ "expression": expression, "returnByValue": true });
            match self.try_ask("Runtime.evaluate", parameters) {
                Ok(answer) => answer["result"]["value"] == true,
                Err(error) if error["message"] == "Inspected target navigated or closed" => false,
                Err(error) => panic!("{expression}: {error}"),
            }
        });
    }

    /// Opens an address, and waits until it is loaded.
    pub fn go(&mut self, address: &str) {
        let before = self.told("Page.loadEventFired").len();
        self.ask("Page.navigate", json!({ "url": address }));
        while self.told("Page.loadEventFired").len() == before {
            let told = self.receive();
            self.told.push(told);
        }
    }

    /// Presses a key.
    pub fn press(&mut self, key: &str) {
        let (code, text) = match key {
            "Enter" => (13, Some("\r")),
            "Tab" => (9, None),
            other => panic!("{other} has no number here"),
        };
        let mut event = json!({
            "type": "keyDown",
            "key": key,
            "code": key,
            "windowsVirtualKeyCode": code,
            "text": text,
        });
        if text.is_none() {
            event.as_object_mut().expect("an object").remove("text");
        }
        self.ask("Input.dispatchKeyEvent", event);
        let up = json!({ "type": "keyUp", "key": key, "code": key, "windowsVirtualKeyCode": code });
        self.ask("Input.dispatchKeyEvent", up);
    }

    /// Types a text into the focused field.
    pub fn enter(&mut self, text: &str) {
        self.ask("Input.insertText", json!({ "text": text }));
    }

    /// Sets the width of the page, and a light or dark scheme.
    pub fn look(&mut self, width: u32, scheme: &str) {
        let size =
            json!({ "width": width, "height": 900, "deviceScaleFactor": 1, "mobile": false });
        self.ask("Emulation.setDeviceMetricsOverride", size);
        // Scroll bars use space, and telephones have none.
        self.ask("Emulation.setScrollbarsHidden", json!({ "hidden": true }));
        let features = json!([{ "name": "prefers-color-scheme", "value": scheme }]);
        self.ask("Emulation.setEmulatedMedia", json!({ "features": features }));
    }

    /// A picture of the whole page, as PNG in base64.
    pub fn picture(&mut self) -> String {
        let picture = self.ask("Page.captureScreenshot", json!({ "captureBeyondViewport": true }));
        picture["data"].as_str().expect("a picture").to_owned()
    }

    /// The events of a kind so far.
    pub fn told(&self, method: &str) -> Vec<&Value> {
        self.told
            .iter()
            .filter(|told| told["method"] == method)
            .map(|told| &told["params"])
            .collect()
    }

    /// The addresses that the page has requested so far.
    pub fn asked_for(&self) -> Vec<String> {
        let addresses = self.told("Network.requestWillBeSent").into_iter();
        addresses
            .map(|told| told["request"]["url"].as_str().unwrap_or_default().to_owned())
            .collect()
    }

    /// The errors in pages so far: failed scripts and the browser's complaints.
    pub fn complaints(&mut self) -> Vec<String> {
        // Earlier events have arrived with this response.
        self.script("0");
        let failed = self.told("Runtime.exceptionThrown").into_iter();
        let logged = self.told("Log.entryAdded").into_iter();
        let called = self.told("Runtime.consoleAPICalled").into_iter();
        let bad = logged.filter(|told| told["entry"]["level"] == "error");
        failed
            .chain(bad)
            .chain(called.filter(|told| told["type"] == "error"))
            .map(ToString::to_string)
            .collect()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
