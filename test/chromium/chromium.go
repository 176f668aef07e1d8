package chromium

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// timeout is the time in which the browser must answer a command or fulfil a condition. Otherwise, the test fails. The time is long, because other tests can use
// all processors.
const timeout = time.Minute

// Browser is a headless Chromium. The test controls it with the DevTools protocol over two pipes, which needs no package for websockets.
type Browser struct {
	commands io.Writer

	mu      sync.Mutex
	last    int
	replies map[int]chan message
	tabs    map[string]*Tab // by session
	closed  error
}

// message is a command, a reply or an event of the DevTools protocol.
type message struct {
	ID        int             `json:"id,omitempty"`
	SessionID string          `json:"sessionId,omitempty"`
	Method    string          `json:"method,omitempty"`
	Params    json.RawMessage `json:"params,omitempty"`
	Result    json.RawMessage `json:"result,omitempty"`
	Error     *struct {
		Message string `json:"message"`
	} `json:"error,omitempty"`
}

// Start starts the browser, which ends with the test. It skips the test if there is no Chromium, and in short mode. The environment variable CHROMIUM can contain the path
// of the browser.
func Start(t *testing.T) *Browser {
	t.Helper()
	if testing.Short() {
		t.Skip("the test starts a browser, so it does not run in short mode")
	}
	path := os.Getenv("CHROMIUM")
	for _, name := range []string{"chromium", "chromium-browser"} {
		if path == "" {
			path, _ = exec.LookPath(name) // after an error, the path is empty
		}
	}
	if path == "" {
		t.Skip("the test needs Chromium: run apt-get install chromium, or set CHROMIUM to the path of a browser with its engine")
	}
	commandsIn, commandsOut, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	messagesIn, messagesOut, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	profile, err := os.MkdirTemp("", "chromium-") //nolint:usetesting // t.TempDir fails the test if a process of Chromium still writes
	if err != nil {
		t.Fatal(err)
	}
	var output bytes.Buffer
	// The browser runs without its sandbox, because containers forbid it. It opens only pages of this test.
	cmd := exec.Command(path, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars", "--window-size=1280,900", "--no-first-run",
		"--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-quic", "--disable-extensions", "--lang=en-GB", "--user-data-dir="+profile,
		"--remote-debugging-pipe", "about:blank")
	cmd.ExtraFiles = []*os.File{commandsIn, messagesOut} // Chromium uses the descriptors 3 and 4
	cmd.Env = append(os.Environ(), "LANG=C.UTF-8", "TZ=UTC")
	cmd.Stderr = &output
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_, _ = commandsIn.Close(), messagesOut.Close() // the browser has copies
	b := &Browser{commands: commandsOut, replies: map[int]chan message{}, tabs: map[string]*Tab{}}
	read := make(chan struct{})
	go func() {
		defer close(read)
		b.read(messagesIn)
	}()
	t.Cleanup(func() {
		_ = commandsOut.Close() // Chromium ends when its pipe is closed
		kill := time.AfterFunc(10*time.Second, func() { _ = cmd.Process.Kill() })
		_ = cmd.Wait() // the exit code does not matter
		kill.Stop()
		<-read
		_ = messagesIn.Close()
		_ = os.RemoveAll(profile) // processes of Chromium can still write for a moment
		if t.Failed() && testing.Verbose() {
			t.Logf("the output of the browser:\n%s", output.String())
		}
	})
	return b
}

func (b *Browser) read(r io.Reader) {
	reader := bufio.NewReaderSize(r, 1<<20)
	for {
		text, err := reader.ReadBytes(0)
		if err != nil {
			b.close(fmt.Errorf("the browser has ended: %w", err))
			return
		}
		var m message
		if err := json.Unmarshal(bytes.TrimSuffix(text, []byte{0}), &m); err != nil {
			b.close(err)
			return
		}
		b.mu.Lock()
		reply, page := b.replies[m.ID], b.tabs[m.SessionID]
		delete(b.replies, m.ID)
		b.mu.Unlock()
		switch {
		case reply != nil:
			reply <- m
		case page != nil:
			page.observe(m)
		}
	}
}

func (b *Browser) close(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = err
	for _, reply := range b.replies {
		close(reply)
	}
	b.replies = nil
}

// call sends a command and decodes its result.
func (b *Browser) call(session, method string, params, result any) error {
	encoded, err := json.Marshal(params)
	if err != nil {
		return err
	}
	reply := make(chan message, 1)
	b.mu.Lock()
	if b.closed != nil {
		defer b.mu.Unlock()
		return b.closed
	}
	b.last++
	b.replies[b.last] = reply
	text, err := json.Marshal(message{ID: b.last, SessionID: session, Method: method, Params: encoded})
	if err == nil {
		_, err = b.commands.Write(append(text, 0))
	}
	b.mu.Unlock()
	if err != nil {
		return err
	}
	select {
	case m, open := <-reply:
		switch {
		case !open:
			return errors.New("the browser has ended")
		case m.Error != nil:
			return fmt.Errorf("%s: %s", method, m.Error.Message)
		case result == nil:
			return nil
		}
		return json.Unmarshal(m.Result, result)
	case <-time.After(timeout):
		return fmt.Errorf("%s: the browser does not answer", method)
	}
}

// Tab is a page in the browser. Its methods end the test after an error.
type Tab struct {
	t       *testing.T
	browser *Browser
	session string

	mu       sync.Mutex
	problems []string // errors of the console, and violations of the Content-Security-Policy
	requests []string // the addresses of all requests
}

// Open opens an address in a new tab.
func (b *Browser) Open(t *testing.T, address string) *Tab {
	t.Helper()
	p := b.Blank(t)
	p.Navigate(address)
	return p
}

// Blank returns an empty tab, which is closed at the end of the test.
func (b *Browser) Blank(t *testing.T) *Tab {
	t.Helper()
	p := &Tab{t: t, browser: b}
	var target struct {
		TargetID string `json:"targetId"`
	}
	p.check(b.call("", "Target.createTarget", map[string]any{"url": "about:blank"}, &target))
	var attached struct {
		SessionID string `json:"sessionId"`
	}
	p.check(b.call("", "Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true}, &attached))
	p.session = attached.SessionID
	b.mu.Lock()
	b.tabs[p.session] = p
	b.mu.Unlock()
	t.Cleanup(func() {
		_ = b.call("", "Target.closeTarget", target, nil) // the browser may have ended
	})
	for _, domain := range []string{"Page", "Runtime", "Log", "Network"} {
		p.Call(domain+".enable", nil, nil)
	}
	return p
}

func (p *Tab) observe(m message) {
	var event struct {
		Type             string
		Entry            struct{ Level, Text, URL string }
		ExceptionDetails json.RawMessage
		Request          struct{ URL string }
	}
	if json.Unmarshal(m.Params, &event) != nil {
		return // the test does not need the event
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	switch m.Method {
	case "Log.entryAdded":
		if event.Entry.Level == "error" || event.Entry.Level == "warning" {
			p.problems = append(p.problems, event.Entry.Text+" "+event.Entry.URL)
		}
	case "Runtime.exceptionThrown":
		p.problems = append(p.problems, string(event.ExceptionDetails))
	case "Runtime.consoleAPICalled":
		p.problems = append(p.problems, string(m.Params))
	case "Page.javascriptDialogOpening":
		p.problems = append(p.problems, "a dialog is open: "+string(m.Params))
	case "Network.requestWillBeSent":
		p.requests = append(p.requests, event.Request.URL)
	}
}

func (p *Tab) check(err error) {
	p.t.Helper()
	if err != nil {
		p.t.Fatal(err)
	}
}

// Call sends a command of the DevTools protocol to the tab, and decodes its result.
func (p *Tab) Call(method string, params map[string]any, result any) {
	p.t.Helper()
	if params == nil {
		params = map[string]any{}
	}
	p.check(p.browser.call(p.session, method, params, result))
}

// Navigate opens the address of a status page, and waits until the page shows its objects.
func (p *Tab) Navigate(address string) {
	p.t.Helper()
	p.Call("Page.navigate", map[string]any{"url": address}, nil)
	p.Wait("document.querySelector('main') && performance.getEntriesByName('objects-shown').length > 0 && !document.querySelector('[aria-busy]')")
}

// Eval decodes the value of an expression.
func (p *Tab) Eval(expression string, value any) {
	p.t.Helper()
	p.check(p.tryEval(expression, value))
}

func (p *Tab) tryEval(expression string, value any) error {
	var result struct {
		Result           struct{ Value json.RawMessage }
		ExceptionDetails json.RawMessage
	}
	err := p.browser.call(p.session, "Runtime.evaluate", map[string]any{"expression": expression, "returnByValue": true, "awaitPromise": true}, &result)
	switch {
	case err != nil:
		return err
	case result.ExceptionDetails != nil:
		return fmt.Errorf("%s: %s", expression, result.ExceptionDetails)
	case value == nil:
		return nil
	case result.Result.Value == nil:
		return fmt.Errorf("%s has no value", expression)
	}
	return json.Unmarshal(result.Result.Value, value)
}

// Text returns the value of an expression that is a string.
func (p *Tab) Text(expression string) (text string) {
	p.t.Helper()
	p.Eval(expression, &text)
	return text
}

// Count returns the number of elements that match a selector.
func (p *Tab) Count(selector string) (n int) {
	p.t.Helper()
	p.Eval(fmt.Sprintf("document.querySelectorAll(%q).length", selector), &n)
	return n
}

// Wait waits until a condition is true.
func (p *Tab) Wait(condition string) {
	p.t.Helper()
	deadline := time.After(timeout)
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	for {
		var fulfilled bool
		err := p.tryEval("!!("+condition+")", &fulfilled)
		if err == nil && fulfilled {
			return
		}
		select {
		case <-ticker.C:
		case <-deadline:
			var page string
			_ = p.tryEval("document.body.innerText.slice(0, 2000)", &page) // only for the message
			p.t.Fatalf("the condition %s is not fulfilled (%v). The page:\n%s\nproblems: %v", condition, err, page, p.takeProblems())
		}
	}
}

var keyCodes = map[string]int{"Tab": 9, "Enter": 13, " ": 32, "ArrowRight": 39}

// Press presses a key, with Shift if the name begins with Shift+.
func (p *Tab) Press(key string) {
	p.t.Helper()
	modifiers := 0
	if name, shift := strings.CutPrefix(key, "Shift+"); shift {
		key, modifiers = name, 8
	}
	event := map[string]any{"type": "rawKeyDown", "key": key, "code": key, "windowsVirtualKeyCode": keyCodes[key], "modifiers": modifiers}
	if text := map[string]string{"Enter": "\r", " ": " "}[key]; text != "" {
		event["type"], event["text"] = "keyDown", text
	}
	p.Call("Input.dispatchKeyEvent", event, nil)
	event["type"] = "keyUp"
	delete(event, "text")
	p.Call("Input.dispatchKeyEvent", event, nil)
}

// TabTo presses Tab until the focused element matches a selector.
func (p *Tab) TabTo(selector string) {
	p.t.Helper()
	for range 30 {
		p.Press("Tab")
		var focused bool
		if p.Eval(fmt.Sprintf("document.activeElement.matches(%q)", selector), &focused); focused {
			return
		}
	}
	p.t.Fatalf("the key Tab does not reach %s", selector)
}

// Insert types a text into the focused element.
func (p *Tab) Insert(text string) {
	p.t.Helper()
	p.Call("Input.insertText", map[string]any{"text": text}, nil)
}

// UseColors selects the colour scheme: light or dark.
func (p *Tab) UseColors(scheme string) {
	p.t.Helper()
	p.Call("Emulation.setEmulatedMedia", map[string]any{"features": []any{map[string]any{"name": "prefers-color-scheme", "value": scheme}}}, nil)
}

// Resize sets the size of the window.
func (p *Tab) Resize(width, height int) {
	p.t.Helper()
	p.Call("Emulation.setDeviceMetricsOverride", map[string]any{"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false}, nil)
}

// Screenshot returns the visible part of the page as PNG.
func (p *Tab) Screenshot() []byte {
	p.t.Helper()
	var picture struct{ Data []byte }
	p.Call("Page.captureScreenshot", map[string]any{"format": "png"}, &picture)
	return picture.Data
}

func (p *Tab) takeProblems() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	taken := p.problems
	p.problems = nil
	return taken
}

// Verify fails the test if there were errors, or requests to other servers.
func (p *Tab) Verify(server string) {
	p.t.Helper()
	for _, problem := range p.takeProblems() {
		p.t.Errorf("the browser reports: %s", problem)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if i := slices.IndexFunc(p.requests, func(address string) bool { return !strings.HasPrefix(address, server) }); i >= 0 {
		p.t.Errorf("the page requests %s, which is not below %s", p.requests[i], server)
	}
}
