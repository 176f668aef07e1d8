package statuspage_test

import (
	"bytes"
	"flag"
	"fmt"
	"image/png"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kopf-runtime/kopf-runtime/internal/parts/statuspage"
	"github.com/kopf-runtime/kopf-runtime/pkg/explain"
	"github.com/kopf-runtime/kopf-runtime/test/chromium"
)

var update = flag.Bool("update", false, "write the files in testdata")

var updateScreenshots = flag.Bool("update-screenshots", false, "write the screenshots of the documentation")

// The page is served below a prefix, as behind kubectl proxy.
const prefix = "/api/v1/namespaces/shop/pods/operator/proxy"

// serve returns the address of the page of an operator.
func serve(t *testing.T, s statuspage.Source) string {
	t.Helper()
	return serveHandler(t, statuspage.New(s))
}

func serveHandler(t *testing.T, handler http.Handler) string {
	t.Helper()
	server := httptest.NewServer(http.StripPrefix(prefix, handler))
	t.Cleanup(server.Close)
	return server.URL + prefix + statuspage.Path
}

func TestPage(t *testing.T) {
	b := chromium.Start(t)
	t.Run("shows the kinds and objects", func(t *testing.T) { testList(t, b) })
	t.Run("searches and filters", func(t *testing.T) { testSearch(t, b) })
	t.Run("explains one object", func(t *testing.T) { testObject(t, b) })
	t.Run("needs only the keyboard", func(t *testing.T) { testKeyboard(t, b) })
	t.Run("opens a row on a click", func(t *testing.T) { testClick(t, b) })
	t.Run("reloads and refreshes", func(t *testing.T) { testRefresh(t, b) })
	t.Run("explains errors", func(t *testing.T) { testErrors(t, b) })
	t.Run("shows hostile values as text", func(t *testing.T) { testHostileValues(t, b) })
	t.Run("shows no unknown fields", func(t *testing.T) { testUnknownFields(t, b) })
	t.Run("has names and roles for screen readers", func(t *testing.T) { testAccessibility(t, b) })
	t.Run("has contrast in light and dark", func(t *testing.T) { testContrast(t, b) })
	t.Run("fits a narrow screen", func(t *testing.T) { testNarrow(t, b) })
	t.Run("loads 10000 objects", func(t *testing.T) { testManyObjects(t, b) })
	t.Run("has screenshots in the documentation", func(t *testing.T) { testScreenshots(t, b) })
}

// tab is a page in the browser.
type tab struct {
	*chromium.Tab
	t *testing.T
}

// blank returns an empty tab.
func blank(t *testing.T, b *chromium.Browser) *tab {
	t.Helper()
	return &tab{b.Blank(t), t}
}

// open opens an address in a new tab.
func open(t *testing.T, b *chromium.Browser, address string) *tab {
	t.Helper()
	p := blank(t, b)
	p.Navigate(address)
	return p
}

const rowNames = "[...document.querySelectorAll('#objects tbody th')].map(cell => cell.textContent)"

func (p *tab) rows() (names []string) {
	p.t.Helper()
	p.Eval(rowNames, &names)
	return names
}

func (p *tab) expectText(expression, want string) {
	p.t.Helper()
	if got := p.Text(expression); got != want {
		p.t.Errorf("%s is %q, want %q", expression, got, want)
	}
}

func (p *tab) expectContains(expression string, wants ...string) {
	p.t.Helper()
	got := p.Text(expression)
	for _, want := range wants {
		if !strings.Contains(got, want) {
			p.t.Errorf("%s does not contain %q: %s", expression, want, got)
		}
	}
}

func testList(t *testing.T, b *chromium.Browser) {
	address := serve(t, example())
	p := open(t, b, address)
	if got, want := p.rows(), []string{"orders", "sessions", "invoices", "products", "carts", "settings"}; !slices.Equal(got, want) {
		t.Errorf("the rows are %q, want %q: objects with problems come first", got, want)
	}
	p.expectContains("document.querySelector('#kinds article').innerText.replace(/\\s+/g, ' ')",
		"Database shop.example.com/v1", "objects 5 unfinished 3 failing 1 looping 1 waiting 2 deleting 1 paused 1 held 1", "Handlers without unfinished objects: backup, health")
	p.expectText("[...document.querySelectorAll('.heat tbody tr')].map(row => row.innerText.replace(/\\s+/g, ' ').trim()).join('; ')", "provision 0 2 0; users 0 0 1; release 1 0 0")
	p.expectContains("document.querySelector('#objects tbody tr').innerText.replace(/\\s+/g, ' ')",
		"orders", "shop", "Database", "failing", "provision waiting 3 attempts", "users failed 5 attempts", `handler "provision": the disk pool ssd-2 is full`, "users: the role reporting does not exist")
	p.expectText("document.getElementById('result').textContent", "6 of 6 objects")
	p.Verify(address)
}

func testSearch(t *testing.T, b *chromium.Browser) {
	address := serve(t, example())
	for _, test := range []struct {
		query string
		rows  []string
	}{
		{"q=session", []string{"sessions"}},
		{"q=SHOP+prod", []string{"products"}},
		{"q=users", []string{"orders"}},
		{"q=ssd-2", []string{"orders"}},
		{"q=missing", nil},
		{"q=shop&kind=ConfigMap", []string{"settings"}},
		{"only=unfinished", []string{"orders", "invoices", "products"}},
		{"only=failing", []string{"orders"}},
		{"only=waiting", []string{"orders", "products"}},
		{"only=deleting", []string{"invoices"}},
		{"only=paused", []string{"carts"}},
		{"only=held", []string{"carts"}},
		{"only=looping", []string{"sessions"}},
		{"only=waiting&q=products&kind=Database.shop.example.com", []string{"products"}},
		{"only=nonsense&kind=nonsense&q=settings", []string{"settings"}},
	} {
		p := open(t, b, address+"?"+test.query)
		if got := p.rows(); !slices.Equal(got, test.rows) {
			t.Errorf("%s: the rows are %q, want %q", test.query, got, test.rows)
		}
		p.Verify(address)
	}

	p := open(t, b, address)
	p.Eval("document.getElementById('search').focus()", nil)
	p.Insert("shop")
	p.Eval("document.querySelector('input[value=deleting]').click()", nil)
	p.Wait("location.search === '?q=shop&only=deleting'")
	if got := p.rows(); !slices.Equal(got, []string{"invoices"}) {
		t.Errorf("the rows are %q", got)
	}
	p.expectText("document.getElementById('result').textContent", "1 of 6 objects")
	p.Eval("document.getElementById('search').focus()", nil)
	p.Insert("xyz")
	p.Wait("document.getElementById('result').textContent.includes('None of 6 objects matches')")
	p.Verify(address)
}

// expectGolden compares a text with a file in testdata. The flag -update writes the file.
func expectGolden(t *testing.T, name, text string) {
	t.Helper()
	file := filepath.Join("testdata", name)
	text = strings.ReplaceAll(text, "><", ">\n<") + "\n" // for diffs
	if *update {
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if want, err := os.ReadFile(file); err != nil || text != string(want) {
		t.Errorf("%s differs (%v); run the test with -update. The page has:\n%s", file, err, text)
	}
}

const orders = "#Database.shop.example.com/shop/orders"

func testObject(t *testing.T, b *chromium.Browser) {
	address := serve(t, example())
	p := open(t, b, address+orders)
	p.expectText("document.title", "Database shop/orders – Operator status")
	p.expectText("document.getElementById('object-title').textContent", "Database shop/orders")
	p.expectText("document.getElementById('object-status').textContent", "update: the object has changed since it was handled (spec.size, spec.users)")
	p.expectContains("document.querySelector('.facts').innerText", "the object has the finalizer of the operator", "example.com/audit", `handler "provision": the disk pool ssd-2 is full`)
	p.expectText("[...document.querySelectorAll('#explanation table:first-of-type thead th')].map(cell => cell.textContent).join()", "Handler,Kind,State,Attempts,Why,Next,Last error")
	for row, want := range map[int]string{
		1: "provision cause waiting 3 in 11 min the last attempt failed in 4 min the disk pool ssd-2 is full",
		2: "users cause failed 5 in 9 min 30 s the last attempt failed permanently the role reporting does not exist",
		4: "backup timer waiting 0 the interval is 1h in 37 min",
	} {
		p.expectText(fmt.Sprintf("document.querySelector('#explanation tbody tr:nth-child(%d)').innerText.replace(/\\s+/g, ' ').trim()", row), want)
	}
	expectGolden(t, "timeline.svg", p.Text("document.querySelector('svg.times').outerHTML"))
	p.expectText("document.querySelector('svg.times desc').textContent", "provision began 11 min ago, attempt 3 retrying 35 s ago, next in 4 min; "+
		"users began 11 min ago, failed 1 min 30 s ago, attempt 5 failed 1 min 30 s ago; backup next in 37 min; health attempt 1 succeeded 18 s ago, next in 12 s; "+
		"replicate attempt 1 active 10 min ago")
	p.expectText("document.querySelector('#explanation table:last-of-type caption').textContent", "Last attempts since the operator started")
	p.expectText("document.querySelector('#explanation table:last-of-type tbody').innerText.replace(/\\s+/g, ' ').trim()",
		"health 1 timer 18 s ago 11 ms succeeded health 1 timer 48 s ago 12 ms succeeded provision 3 update 1 min 5 s ago 30 s retrying the disk pool ssd-2 is full "+
			"users 5 update 1 min 30 s ago 200 ms failed the role reporting does not exist provision 2 update 6 min ago 35 s retrying the disk pool ssd-2 is full "+
			"users 4 update 7 min ago 300 ms retrying the role reporting does not exist replicate 1 daemon 10 min ago running active "+
			"provision 1 update 11 min ago 40 s retrying the disk pool ssd-2 is full")
	var visible bool
	if p.Eval("document.getElementById('list').checkVisibility()", &visible); visible {
		t.Error("the list is visible beside the object")
	}
	p.Verify(address)

	p = open(t, b, address+"#ConfigMap/shop/settings")
	p.expectText("document.getElementById('object-status').textContent", "nothing has changed since the object was handled")
	p.expectContains("document.querySelector('.facts').innerText", "the operator is paused: a peer has a higher priority")
	p.Verify(address)

	page, explained := statuspage.New(example()), make(chan struct{})
	late := serveHandler(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == statuspage.ObjectsPath {
			<-explained // the explanation arrives before the list
		}
		page.ServeHTTP(w, r)
	}))
	p = blank(t, b)
	p.Call("Page.navigate", map[string]any{"url": late + orders}, nil)
	p.Wait("document.querySelector('#explanation table')")
	close(explained)
	p.Wait("document.querySelector('.facts').innerText.includes('the role reporting does not exist')")
	p.Verify(late)

	p = open(t, b, address+"#%zz") // not a valid encoding
	if len(p.rows()) != 6 {
		t.Error("a wrong fragment does not show the list")
	}
	p.Verify(address)
}

func testKeyboard(t *testing.T, b *chromium.Browser) {
	s := example()
	s.kinds = append(s.kinds, manyKinds(600)...)
	address := serve(t, s)
	p := open(t, b, address)
	p.TabTo("#auto")
	p.TabTo("#reload")
	p.TabTo("#search")
	p.Insert("the disk pool")
	p.Wait(rowNames + ".join() === 'orders'")
	p.TabTo("#kind")
	p.TabTo("[name=only]")
	p.Press("ArrowRight")
	p.Wait("document.activeElement.value === 'unfinished' && location.search.includes('only=unfinished')")
	p.TabTo("#objects a")
	p.Press("Enter")
	p.Wait("location.hash === '" + orders + "' && document.querySelector('#explanation table')")
	p.expectText("document.activeElement.id", "object-title")
	p.Press("Shift+Tab")
	p.expectText("document.activeElement.id", "back")
	p.Press("Enter")
	p.Wait("document.getElementById('list').checkVisibility()")
	p.expectText("document.activeElement.textContent", "orders")

	p.Navigate(address)
	if n := p.Count("#objects tbody tr"); n != 200 {
		t.Errorf("the table has %d rows, want 200", n)
	}
	p.expectText("document.getElementById('result').textContent", "606 of 606 objects; the first 200 are in the table")
	p.Eval("document.querySelector('#objects tbody tr:last-child a').focus()", nil)
	p.TabTo("#more")
	p.Press("Enter")
	p.Wait("document.querySelectorAll('#objects tbody tr').length === 400")
	p.expectText("String([...document.querySelectorAll('#objects tbody a')].indexOf(document.activeElement))", "200")
	p.Verify(address)
}

func testClick(t *testing.T, b *chromium.Browser) {
	address := serve(t, example())
	p := open(t, b, address)
	var at struct{ X, Y float64 }
	p.Eval(`(() => { const cell = document.querySelector('#objects tbody td:nth-child(3)'); cell.scrollIntoView({block: 'center'});
		const r = cell.getBoundingClientRect(); return {x: r.x + 2, y: r.y + r.height / 2} })()`, &at)
	for _, kind := range []string{"mousePressed", "mouseReleased"} {
		p.Call("Input.dispatchMouseEvent", map[string]any{"type": kind, "x": at.X, "y": at.Y, "button": "left", "clickCount": 1}, nil)
	}
	p.Wait("location.hash === '" + orders + "' && document.querySelector('#explanation table')")
	p.Eval("history.back()", nil)
	p.Wait("document.getElementById('list').checkVisibility() && !location.hash")
	p.Verify(address)
}

func testRefresh(t *testing.T, b *chromium.Browser) {
	var requests atomic.Int64
	var objects atomic.Pointer[[]statuspage.Kind]
	objects.Store(new(example().kinds))
	address := serveHandler(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == statuspage.ObjectsPath {
			requests.Add(1)
		}
		statuspage.New(source{kinds: *objects.Load()}).ServeHTTP(w, r)
	}))
	p := blank(t, b)
	p.Call("Page.addScriptToEvaluateOnNewDocument", map[string]any{
		"source": "const original = setInterval; window.ticks = 0; window.setInterval = (f, ms) => original(() => { f(); ticks++ }, ms / 200)",
	}, nil)
	p.Navigate(address)
	p.Wait("ticks > 3")
	if n := requests.Load(); n != 1 {
		t.Errorf("the page has requested the objects %d times, want 1: the refresh is off", n)
	}

	changed := example().kinds
	changed[0].Objects = append(changed[0].Objects, statuspage.Object{Namespace: "shop", Name: "new"})
	objects.Store(&changed)
	p.Eval("document.querySelector('#objects tbody tr:nth-child(2) a').focus()", nil)
	p.Eval("document.getElementById('reload').click()", nil)
	p.Wait(rowNames + ".includes('new')")
	p.expectText("document.activeElement.textContent", "sessions") // the focus stays

	changed[0].Objects = nil
	objects.Store(&changed)
	p.Eval("document.getElementById('auto').click()", nil)
	p.Wait(rowNames + ".join() === 'settings'")
	p.Verify(address)
}

func testErrors(t *testing.T, b *chromium.Browser) {
	status := func(code int, body string) http.Handler {
		page := statuspage.New(example())
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != statuspage.ObjectsPath && r.URL.Path != statuspage.ExplainPath {
				page.ServeHTTP(w, r)
				return
			}
			w.WriteHeader(code)
			_, _ = w.Write([]byte(body)) // the client has gone
		})
	}
	broken := example()
	broken.err = os.ErrDeadlineExceeded
	for _, test := range []struct {
		name     string
		handler  http.Handler
		fragment string
		contains []string
	}{
		{"not running", statuspage.New(stopped{}), "", []string{"not running in this process", "open the page of the leader"}},
		{"unauthorized", status(401, "Unauthorized"), "", []string{"status 401", "Log in"}},
		{"forbidden", status(403, "Forbidden"), "", []string{"status 403", "Ask an administrator"}},
		{"internal error", status(500, `{"error": "the cache is broken"}`), "", []string{"the cache is broken", "The log of the operator"}},
		{"page of a proxy", status(200, "<html>"), "", []string{"not JSON", "Log in to the proxy"}},
		{"unknown kind", statuspage.New(example()), "#Table/shop/orders", []string{"the operator handles no objects of the kind Table", "Check the address"}},
		{"failed explanation", statuspage.New(broken), orders, []string{"i/o timeout"}},
	} {
		p := open(t, b, serveHandler(t, test.handler)+test.fragment)
		p.expectContains("document.querySelector('[role=alert]').innerText", test.contains...)
		var listed bool
		if p.Eval("document.getElementById('list').checkVisibility()", &listed); listed {
			t.Errorf("%s: the page shows an empty list", test.name)
		}
	}

	server := httptest.NewServer(statuspage.New(example()))
	defer server.Close()
	p := open(t, b, server.URL+statuspage.Path)
	server.Close()
	p.Eval("document.getElementById('reload').click()", nil)
	p.Wait("document.querySelector('[role=alert]').innerText.includes('cannot reach the operator')")
	if len(p.rows()) != 6 {
		t.Error("the page does not keep the objects")
	}
	p.Eval("document.querySelector('#objects a').click()", nil)
	p.Wait("document.querySelector('#object [role=status]').textContent === ''")
	p.expectContains("document.querySelector('[role=alert]').innerText", "Check that the operator is running")
}

func testHostileValues(t *testing.T, b *chromium.Browser) {
	const hostile = `<img src=x onerror="document.title='attacked'; alert(1)"><script>document.title='attacked'</script>'"/%&#;`
	s := source{
		kinds: []statuspage.Kind{{
			Group: hostile, Version: hostile, Kind: "Database", Handlers: []string{hostile, hostile + "2"},
			Objects: []statuspage.Object{{
				Namespace: hostile, Name: hostile, Error: hostile, Unfinished: []statuspage.Unfinished{{Handler: hostile, State: hostile, Error: hostile}},
			}},
		}},
		explanations: map[string]*explain.Explanation{
			"Database." + hostile + "/" + hostile + "/" + hostile: {
				Kind: "Database", Namespace: hostile, Name: hostile, Time: noon, Cause: hostile, Changed: []string{hostile}, Waits: []string{hostile}, Deleting: true,
				OtherFinalizers: []string{hostile}, Unknown: []string{hostile},
				Handlers: []explain.Handler{{ID: hostile, Kind: hostile, State: hostile, Why: hostile, LastError: hostile, Started: in(-time.Minute), Due: in(time.Minute)}},
				Attempts: []explain.Attempt{attempt(hostile, hostile, 1, -time.Second, 0, hostile, hostile)},
			},
		},
	}
	address := serve(t, s)
	p := open(t, b, address+"?q="+url.QueryEscape(hostile)+"&kind="+url.QueryEscape(hostile)+"&only="+url.QueryEscape(hostile))
	p.expectText(rowNames+"[0]", hostile)
	p.expectContains("document.querySelector('#objects tbody').textContent", hostile)
	p.expectContains("document.querySelector('#kinds').textContent", hostile)
	p.Eval("document.querySelector('#objects a').click()", nil)
	p.Wait("document.querySelector('#explanation table')")
	p.expectText("document.getElementById('object-title').textContent", "Database "+hostile+"/"+hostile)
	p.expectText("document.querySelector('#explanation tbody th').textContent", hostile)
	var attacked bool
	p.Eval("document.querySelectorAll('img, script:not([src=\"page.js\"]), [onerror]').length > 0 || document.title === 'attacked'", &attacked)
	if attacked {
		t.Error("the page has created elements from values")
	}
	p.Verify(address)

	p = open(t, b, address+"#"+url.PathEscape("<img src=x onerror=alert(1)>")+"/a/b") // the error contains the kind
	p.expectContains("document.querySelector('[role=alert]').textContent", "<img src=x onerror=alert(1)>")
	if p.Count("img") > 0 {
		t.Error("the page has created elements from the address")
	}
}

// The operator sends no values of Secrets. If a later version sends more fields by mistake, the page does not show them.
func testUnknownFields(t *testing.T, b *chromium.Browser) {
	page := statuspage.New(example())
	const secret = "c3dvcmRmaXNo"
	address := serveHandler(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		recorder := httptest.NewRecorder()
		page.ServeHTTP(recorder, r)
		body := recorder.Body.String()
		if r.URL.Path == statuspage.ObjectsPath || r.URL.Path == statuspage.ExplainPath {
			body = strings.ReplaceAll(body, `"name":`, `"data":{"password":"`+secret+`"},"annotations":{"note":"`+secret+`"},"name":`)
			body = strings.ReplaceAll(body, `"id":`, `"value":"`+secret+`","id":`)
			body = strings.ReplaceAll(body, `"handler":`, `"value":"`+secret+`","handler":`)
		}
		maps.Copy(w.Header(), recorder.Header())
		_, _ = w.Write([]byte(body)) // the client has gone
	}))
	for _, fragment := range []string{"", "?q=" + secret, orders} {
		p := open(t, b, address+fragment)
		if fragment == orders {
			p.expectContains("document.getElementById('explanation').textContent", "provision")
		}
		var shown bool
		p.Eval("document.documentElement.outerHTML.includes('"+secret+"')", &shown)
		if shown {
			t.Errorf("%q: the page contains an unknown field", fragment)
		}
		if fragment == "?q="+secret && len(p.rows()) > 0 {
			t.Error("the search finds unknown fields")
		}
		p.Verify(address)
	}
}

func testAccessibility(t *testing.T, b *chromium.Browser) {
	address := serve(t, example())
	for fragment, want := range map[string][]string{
		"": {
			"banner", "main", "search Objects", "heading Operator status", "heading Kinds", "heading Objects", "checkbox Refresh every 10 seconds", "button Reload",
			"searchbox Search", "combobox Kind", "radio failing 1", "radio looping 1", "group Show", "status", "table Objects with problems come first. Open an object to see why its handlers are called or not.",
			"columnheader Error", "rowheader orders", "link orders", "region Kinds",
		},
		orders: {"heading Database shop/orders", "link ← All objects", "status", "table Handlers", "columnheader Why", "rowheader provision", "image Attempts and next attempts", "table Last attempts since the operator started", "columnheader Result"},
	} {
		for _, width := range []int{1280, 360} {
			p := blank(t, b)
			p.Resize(width, 900)
			p.Navigate(address + fragment)
			var tree struct {
				Nodes []struct {
					Ignored    bool
					Role, Name struct{ Value string }
				}
			}
			p.Call("Accessibility.getFullAXTree", nil, &tree)
			var found []string
			for _, node := range tree.Nodes {
				role, name := node.Role.Value, strings.TrimSpace(node.Name.Value)
				if node.Ignored {
					continue
				}
				found = append(found, role, role+" "+name)
				if slices.Contains([]string{"button", "checkbox", "columnheader", "combobox", "heading", "image", "link", "radio", "rowheader", "searchbox", "table"}, role) && name == "" {
					t.Errorf("%q at width %d: a %s has no name", fragment, width, role)
				}
			}
			for _, one := range want {
				if narrow := width < 700 && (strings.HasPrefix(one, "columnheader") || strings.HasPrefix(one, "image")); !narrow && !slices.Contains(found, one) {
					t.Errorf("%q at width %d: the page has no %q. It has %q", fragment, width, one, found)
				}
			}
			var live string
			if p.Eval("[document.getElementById('result'), document.getElementById('error')].map(e => e.role).join()", &live); live != "status,alert" {
				t.Errorf("the live regions are %s", live)
			}
		}
	}
}

// contrast returns the texts with a contrast below 4.5 to 1, which WCAG 2.2 requires on level AA.
const contrast = `(() => {
	const channel = v => (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
	const parse = c => c.match(/[\d.]+/g).map(Number);
	const luminance = ([r, g, b]) => 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b);
	const background = e => { for (; e; e = e.parentElement) { const c = parse(getComputedStyle(e).backgroundColor); if (c.length < 4 || c[3] === 1) return c } return [255, 255, 255] };
	const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT), low = [];
	let checked = 0;
	while (walker.nextNode()) {
		const e = walker.currentNode.parentElement;
		if (!walker.data && !walker.currentNode.data.trim() || !e.checkVisibility()) continue;
		const style = getComputedStyle(e), one = luminance(parse(e instanceof SVGElement ? style.fill : style.color)), two = luminance(background(e));
		const ratio = (Math.max(one, two) + 0.05) / (Math.min(one, two) + 0.05);
		checked++;
		if (ratio < 4.5) low.push(walker.currentNode.data.trim() + ' ' + ratio.toFixed(2));
	}
	return { checked, low };
})()`

func testContrast(t *testing.T, b *chromium.Browser) {
	address := serve(t, example())
	for _, colors := range []string{"light", "dark"} {
		for _, fragment := range []string{"", orders, "#Table/shop/orders"} {
			p := blank(t, b)
			p.UseColors(colors)
			p.Navigate(address + fragment)
			var result struct {
				Checked int
				Low     []string
			}
			p.Eval(contrast, &result)
			if len(result.Low) > 0 || result.Checked < 5 {
				t.Errorf("%s %q: of %d texts, these have a low contrast: %q", colors, fragment, result.Checked, result.Low)
			}
		}
	}
}

func testNarrow(t *testing.T, b *chromium.Browser) {
	address := serve(t, example())
	for _, fragment := range []string{"", orders} {
		p := blank(t, b)
		p.Resize(320, 800)
		p.Navigate(address + fragment)
		var wide []string
		p.Eval("[...document.querySelectorAll('body *')].filter(e => e.checkVisibility() && e.getBoundingClientRect().right > 321).map(e => e.outerHTML.slice(0, 80))", &wide)
		if len(wide) > 0 {
			t.Errorf("%q: these elements are wider than the screen: %q", fragment, wide)
		}
		p.Verify(address)
	}
}

// manyKinds returns kinds with n objects. One of 20 objects is failing, and one of 10 is waiting.
func manyKinds(n int) (kinds []statuspage.Kind) {
	const number = 4
	for k := range number {
		kind := statuspage.Kind{Group: "load.example.com", Version: "v1", Kind: fmt.Sprintf("Load%d", k)}
		for h := range 8 {
			kind.Handlers = append(kind.Handlers, fmt.Sprintf("handler-%d", h))
		}
		for i := k; i < n; i += number {
			object := statuspage.Object{Namespace: fmt.Sprintf("tenant-%03d", i%97), Name: fmt.Sprintf("object-%06d", i), Paused: i%101 == 0, Deleting: i%67 == 0}
			if i%10 == 0 {
				object.Unfinished = append(object.Unfinished, statuspage.Unfinished{Handler: kind.Handlers[i/10%8], State: explain.Waiting, Attempts: i % 7})
			}
			if i%20 == 1 {
				object.Error = fmt.Sprintf("handler %q: the server 10.0.%d.%d refuses connections", kind.Handlers[i/20%8], i%256, i/256%256)
				object.Unfinished = append(object.Unfinished, statuspage.Unfinished{Handler: kind.Handlers[i/20%8], State: explain.Failed, Attempts: 5, Error: "refused"})
			}
			kind.Objects = append(kind.Objects, object)
		}
		kinds = append(kinds, kind)
	}
	return kinds
}

// The test logs times and asserts only the structure, because other tests can use all processors.
func testManyObjects(t *testing.T, b *chromium.Browser) {
	address := serve(t, source{kinds: manyKinds(10_000)})
	p := open(t, b, address)
	if n := p.Count("#objects tbody tr"); n != 200 {
		t.Errorf("the table has %d rows, want 200", n)
	}
	p.expectText("document.getElementById('result').textContent", "10,000 of 10,000 objects; the first 200 are in the table")
	var times struct{ Load, Search, All, Transferred float64 }
	p.Eval(`(async () => {
		const frame = () => new Promise(done => requestAnimationFrame(() => setTimeout(done)));
		const load = performance.getEntriesByName('objects-shown')[0].startTime;
		const transferred = performance.getEntriesByType('resource').find(e => e.name.endsWith('/objects')).decodedBodySize;
		const type = async text => {
			const start = performance.now(), field = document.getElementById('search');
			field.value = text;
			field.dispatchEvent(new Event('input', { bubbles: true }));
			await frame();
			return performance.now() - start;
		};
		const search = await type('object-004'), all = await type('');
		return { load, search, all, transferred };
	})()`, &times)
	t.Logf("10000 objects (%.1f MB): the table is in the page after %.0f ms; a search needs %.0f ms, the complete list %.0f ms",
		times.Transferred/1e6, times.Load, times.Search, times.All)
	p = open(t, b, address+"?q=object-009999")
	if got := p.rows(); !slices.Equal(got, []string{"object-009999"}) {
		t.Errorf("the rows are %q", got)
	}
	p.Verify(address)
}

// testScreenshots writes the pictures of the documentation with -update-screenshots. Without it, the test only verifies that they exist, because fonts differ between machines.
func testScreenshots(t *testing.T, b *chromium.Browser) {
	address := serve(t, example())
	for name, view := range map[string]struct {
		fragment string
		height   int
	}{"status-page.png": {"", 910}, "status-page-object.png": {orders, 1240}} {
		file := filepath.Join("..", "..", "..", "docs", "pictures", name)
		if *updateScreenshots {
			p := blank(t, b)
			p.Resize(1120, view.height)
			p.UseColors("light")
			p.Navigate(address + view.fragment)
			p.Eval("document.getElementById('loaded').textContent = 'Loaded at 12:00:00'", nil)
			if err := os.WriteFile(file, p.Screenshot(), 0o644); err != nil {
				t.Fatal(err)
			}
			p.Verify(address)
		}
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := png.DecodeConfig(bytes.NewReader(content)); err != nil || len(content) > 200<<10 {
			t.Errorf("%s has %d bytes and the error %v: run make screenshots", file, len(content), err)
		}
	}
}
