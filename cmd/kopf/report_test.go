package main

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kopf-runtime/kopf-runtime/internal/statuspage"
	"github.com/kopf-runtime/kopf-runtime/pkg/explain"
	framework "github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// The commands reject invalid flags before any request.
func TestTreeWatchReport_InvalidFlags(t *testing.T) {
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	for args, part := range map[string]string{
		"tree x":                       "accepts 2 arg(s)",
		"tree x y z":                   "accepts 2 arg(s)",
		"tree x y -A":                  "name one object",
		"tree x y -l a=b":              "name one object",
		"tree x y --kinds a,,b":        "--kinds has an empty kind",
		"tree x y -o xml":              "use table, json or yaml",
		"tree x y":                     "no access to a cluster",
		"watch":                        "accepts 1 arg(s)",
		"watch x y":                    "accepts 1 arg(s)",
		"watch x -A -n y":              "exclude each other",
		"watch x -l a=b=c":             "--selector: ",
		"watch x --for 0s":             "--for must be positive, got 0s",
		"watch x --for -1m":            "--for must be positive, got -1m",
		"watch x --for soon":           "invalid argument",
		"watch x --prefix a/b":         "set the part before the slash",
		"watch x --kubeconfig nowhere": "no access to a cluster",
		"report x --operator nowhere":  "set a URL",
		"report x --token t":           "are for --operator: add it",
		"report":                       "requires at least 1 arg",
		"report x -o yaml":             "use html, svg, mermaid or json",
		"report x y -A":                "use --namespace",
		"report x --handler=":          "--handler is empty",
		"report x --finalizer one":     "set the full name",
		"report x":                     "no access to a cluster",
	} {
		if out, err := kopf(t, strings.Fields(args)...); err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%s: got error %v, want %s; output:\n%s", args, err, part, out)
		}
	}
}

var reportNow = time.Date(2026, 5, 1, 12, 10, 0, 0, time.UTC)

// reportRecord returns a record with times in minutes after 12:00.
func reportRecord(purpose string, started, attempted, delayed, stopped float64, success bool, message string) string {
	at := func(minutes float64) time.Time {
		if minutes < 0 {
			return time.Time{}
		}
		return reportNow.Add(time.Duration((minutes - 10) * float64(time.Minute)))
	}
	record := progress.Record{
		Started: at(started), Attempted: at(attempted), Delayed: at(delayed), Stopped: at(stopped), Purpose: purpose, Retries: 2,
		Success: success, Failure: !success && stopped >= 0, Message: message,
	}
	text, err := record.MarshalJSON()
	if err != nil {
		panic(err)
	}
	return string(text)
}

const never = -1

func reportObjects() []*unstructured.Unstructured {
	finished := strings.Replace(reportRecord("create", 0, never, never, 1, true, ""), "{", `{"handler":"provision",`, 1)
	return []*unstructured.Unstructured{
		sample("idle", map[string]string{baseline: handled}),
		sample("new", nil),
		sample("orders", map[string]string{
			baseline:                     `{"spec":{"engine":"postgres","sizeGiB":5}}`,
			"kopf.zalando.org/provision": reportRecord("update", 2, never, never, 3, true, ""),
			"kopf.zalando.org/resize":    reportRecord("update", 2, 8, 14, never, false, "busy: \"disk\""),
			"kopf.zalando.org/announce":  reportRecord("update", 2, never, never, 5, false, "no such channel"),
			progress.HistoryAnnotation:   "[" + finished + "]",
			"example.com/other":          "confidential",
		}),
		sample("photos", map[string]string{
			"kopf.zalando.org/provision": reportRecord("create", 9, never, never, never, false, ""),
			"kopf.zalando.org/resize":    reportRecord("create", 9, 9.5, 11, never, false, ""),
		}),
	}
}

func reportOf(t *testing.T, form string, objects ...*unstructured.Unstructured) string {
	t.Helper()
	look := &inspector{storage: storage{finalizer: framework.DefaultFinalizer, prefix: progress.DefaultPrefix}, now: reportNow}
	r := newReportData("databases", reportNow)
	for _, obj := range objects {
		r.add(look, obj, len(objects) == 1)
	}
	var out bytes.Buffer
	must(t, r.write(&out, form))
	return out.String()
}

func TestReport_Golden(t *testing.T) {
	objects := reportObjects()
	for file, text := range map[string]string{
		"report.svg": reportOf(t, "svg", objects...), "report.mmd": reportOf(t, "mermaid", objects...), "report.json": reportOf(t, "json", objects...),
		"attempts.svg": explainedReport(t, "svg", explained()), "attempts.html": explainedReport(t, "html", explained()),
		"attempts.mmd": explainedReport(t, "mermaid", explained()), "resize.svg": explainedReport(t, "svg", explained(), "resize"),
		"timeline.svg": reportOf(t, "svg", objects[2]), "timeline.mmd": reportOf(t, "mermaid", objects[2]), "timeline.html": reportOf(t, "html", objects[2]),
	} {
		path := filepath.Join("testdata", file+".golden")
		if *update {
			must(t, os.WriteFile(path, []byte(text), 0o600))
		}
		want, err := os.ReadFile(path)
		must(t, err)
		if diff := cmp.Diff(string(want), text); diff != "" {
			t.Errorf("%s differs (-want +got); write it with -update:\n%s", path, diff)
		}
	}
}

// explained is the explanation of an operator, with attempts of a cause handler and of a timer.
func explained() *explain.Explanation {
	at := func(minutes float64) time.Time {
		return reportNow.Add(time.Duration((minutes - 10) * float64(time.Minute)))
	}
	attempt := func(handler, reason string, number int, started, ended float64, state explain.State, message string) explain.Attempt {
		return explain.Attempt{Handler: handler, Reason: reason, Number: number, Started: at(started), Ended: at(ended), State: state, Error: message}
	}
	return &explain.Explanation{
		Kind: "Database", Namespace: "default", Name: "orders", Time: reportNow, Cause: "update",
		Handlers: []explain.Handler{
			{ID: "provision", Kind: "cause", State: explain.Succeeded, Attempts: 1, Started: new(at(2)), Ended: new(at(3))},
			{ID: "resize", Kind: "cause", State: explain.Waiting, Attempts: 2, Started: new(at(2)), Due: new(at(14)), LastError: "busy"},
			{ID: "announce", Kind: "cause", State: explain.Blocked, Why: `it comes after "resize"`},
			{ID: "health", Kind: "timer", State: explain.Waiting, Due: new(at(12))},
		},
		Attempts: []explain.Attempt{
			attempt("health", "timer", 1, 0, 0.1, explain.Succeeded, ""),
			attempt("provision", "update", 1, 2, 3, explain.Succeeded, ""),
			attempt("resize", "update", 1, 3, 4.5, explain.Retrying, "busy"),
			attempt("health", "timer", 1, 5, 5.1, explain.Succeeded, ""),
			attempt("resize", "update", 2, 7, 8, explain.Retrying, "busy"),
			{Handler: "watch", Reason: "daemon", Number: 1, Started: at(8), State: explain.Active},
		},
	}
}

func explainedReport(t *testing.T, form string, x *explain.Explanation, handlers ...string) string {
	t.Helper()
	look := &inspector{handlers: handlers, now: reportNow}
	r := newReportData("databases", reportNow)
	r.addExplained(look, x)
	r.addHistory(look, reportObjects()[2])
	var out bytes.Buffer
	must(t, r.write(&out, form))
	return out.String()
}

// With the operator, a report of many objects has their unfinished handlers, and only those of --handler.
func TestReport_ListedByTheOperator(t *testing.T) {
	r := newReportData("databases", reportNow)
	for _, obj := range []statuspage.Object{
		{Namespace: "shop", Name: "orders", Unfinished: []statuspage.Unfinished{
			{Handler: "resize", State: explain.Waiting, Attempts: 2, Error: "busy"}, {Handler: "resize/disk", State: explain.Due}, {Handler: "resizer", State: explain.Failed, Attempts: 5, Error: "no"},
		}},
		{Namespace: "shop", Name: "carts"},
	} {
		r.addListed(&inspector{handlers: []string{"resize"}}, obj)
	}
	var out bytes.Buffer
	must(t, r.write(&out, "json"))
	var got reportData
	must(t, json.Unmarshal(out.Bytes(), &got))
	want := map[string]handlerRecord{"resize": {ID: "resize", State: "retrying", Attempts: 2, Message: "busy"}, "resize/disk": {ID: "resize/disk", State: "due"}}
	if len(got.Objects) != 1 || got.Total != 2 || !maps.EqualFunc(got.Objects[0].Handlers, want, func(a, b handlerRecord) bool { return a.text(reportNow) == b.text(reportNow) }) {
		t.Errorf("got %s", out.String())
	}
}

// Names, ids, causes and errors can contain any text.
func TestReport_EscapesTexts(t *testing.T) {
	const hostile = `</title></text></svg>"]'` + "`" + `--><script>alert(1)</script>&{{.}}` + "\x1b[2J\x00\u202e\nend\n  click a href \"x\"; %% #quot; <img src=x onerror=alert(1)>"
	obj := sample("x<script>", map[string]string{
		"kopf.zalando.org/a<b>\"'": reportRecord(hostile, 2, 8, 14, never, false, hostile),
		"kopf.zalando.org/failed":  reportRecord(hostile, 2, never, never, 3, false, hostile),
	})
	other := sample("y", map[string]string{"kopf.zalando.org/a": reportRecord(hostile, 2, 8, 14, never, false, hostile)})
	x := explained()
	x.Name, x.Cause, x.Handlers[0].ID, x.Handlers[0].LastError = hostile, hostile, hostile, hostile
	x.Handlers[1].State, x.Attempts[2].State = hostile, hostile
	x.Attempts[0] = explain.Attempt{Handler: hostile, Reason: hostile, State: hostile, Error: hostile, Started: reportNow.Add(-time.Minute)}
	listed := func(_ *testing.T, form string) string {
		r := newReportData(hostile, reportNow)
		r.addListed(&inspector{}, statuspage.Object{Name: hostile, Unfinished: []statuspage.Unfinished{{Handler: hostile, State: hostile, Error: hostile}}})
		var out bytes.Buffer
		must(t, r.write(&out, form))
		return out.String()
	}
	for name, report := range map[string]func(*testing.T, string) string{
		"one object":   func(t *testing.T, form string) string { return reportOf(t, form, obj) },
		"two objects":  func(t *testing.T, form string) string { return reportOf(t, form, obj, other) },
		"the operator": func(t *testing.T, form string) string { return explainedReport(t, form, x) },
		"a list":       listed,
	} {
		for _, form := range []string{"html", "svg", "mermaid"} {
			text := report(t, form)
			for _, part := range []string{"<script", "<img", "x<s", "\x1b", "\x00", "\u202e", "\nend\n", "click a href \"", "</text></svg>\""} {
				if strings.Contains(text, part) {
					t.Errorf("%s of %s contains %q:\n%s", form, name, part, text)
				}
			}
			if strings.Count(text, "<svg") != strings.Count(text, "</svg>") || strings.Count(text, "<svg") > 1 {
				t.Errorf("%s of %s has broken SVG:\n%s", form, name, text)
			}
			switch form {
			case "svg":
				for decoder := xml.NewDecoder(strings.NewReader(text)); ; {
					if _, err := decoder.Token(); errors.Is(err, io.EOF) {
						break
					} else if err != nil {
						t.Fatalf("svg of %s: %v:\n%s", name, err, text)
					}
				}
			case "mermaid":
				if strings.ContainsAny(text, "<>;%`'{}") {
					t.Errorf("mermaid of %s contains special characters:\n%s", name, text)
				}
			}
		}
	}
}

// A report contains no fields of objects, no other annotations, and no references to other files.
func TestReport_ContainsOnlyRecords(t *testing.T) {
	secret := sample("token", map[string]string{
		"kubectl.kubernetes.io/last-applied-configuration": "confidential", baseline: `{"data":{"password":"confidential"},"spec":"confidential"}`,
		"kopf.zalando.org/unknown": "confidential", "kopf.zalando.org/change": reportRecord("update", 2, 8, 14, never, false, "busy"),
		progress.HistoryAnnotation: `"confidential"`,
	})
	secret.SetLabels(map[string]string{"example.com/label": "confidential"})
	secret.Object["data"] = map[string]any{"password": "confidential"}
	secret.Object["stringData"] = map[string]any{"password": "confidential"}
	for _, objects := range [][]*unstructured.Unstructured{{secret}, append(reportObjects(), secret)} {
		for _, form := range []string{"html", "svg", "mermaid", "json"} {
			text := reportOf(t, form, objects...)
			if !strings.Contains(text, "token") && (len(objects) > 1 || form == "html") || !strings.Contains(text, "change") {
				t.Errorf("%s does not contain the handler of the object:\n%s", form, text)
			}
			for _, part := range []string{"confidential", "password", "src=", "href", "url(", "@import", "<script"} {
				if strings.Contains(text, part) {
					t.Errorf("%s contains %q:\n%s", form, part, text)
				}
			}
			if rest := strings.ReplaceAll(text, "http://www.w3.org/2000/svg", ""); strings.Contains(rest, "://") {
				t.Errorf("%s contains a URL:\n%s", form, text)
			}
		}
	}
}

// Pictures have a maximum number of objects, and contain those with errors. JSON contains all.
func TestReport_Limit(t *testing.T) {
	var objects []*unstructured.Unstructured
	for n := range maxReported + 1 {
		objects = append(objects, sample(fmt.Sprintf("a%04d", n), nil))
	}
	objects = append(objects, sample("z-failed", map[string]string{"kopf.zalando.org/a": reportRecord("create", 2, never, never, 3, false, "no")}))
	if html := reportOf(t, "html", objects...); !strings.Contains(html, "2 more objects are not shown") || !strings.Contains(html, "z-failed") || strings.Contains(html, "a0500") {
		t.Errorf("the page has no limit or does not contain the failed object:\n%s", html)
	}
	var all reportData
	must(t, json.Unmarshal([]byte(reportOf(t, "json", objects...)), &all))
	if len(all.Objects) != len(objects) {
		t.Errorf("got %d objects in JSON, want %d", len(all.Objects), len(objects))
	}
}
