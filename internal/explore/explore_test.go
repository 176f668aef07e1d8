package explore

import (
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestPlan_RoundTrip(t *testing.T) {
	for _, text := range []string{"", "lost@3", "crash-after@3/list@0", "unseen@2+crash-before@7/list@12", "shutdown@1"} {
		plan, err := Parse(text)
		if err != nil || plan.String() != text {
			t.Errorf("Parse(%q) = %q, %v; want the same text", text, plan, err)
		}
	}
	for _, text := range []string{"lost", "lost@0", "lost@x", "gone@1", "lost@1/list@1", "crash-after@1/list@-1", "+"} {
		if plan, err := Parse(text); err == nil {
			t.Errorf("Parse(%q) = %q, want an error", text, plan)
		}
	}
}

// A run with an edit and then two writes, without handler calls between them.
func twoWrites() *Run {
	return &Run{
		Writes: []Write{
			{Before: Moment{Changes: 1}, After: Moment{Changes: 2}},
			{Before: Moment{Changes: 2}, After: Moment{Changes: 3}},
		},
		Changes:     []StoreChange{{State: "edited"}, {State: "first"}, {State: "edited"}},
		WatchEvents: []WatchEvent{{"widgets", "ns/one"}, {"widgets", "ns/two"}, {"widgets", "ns/one"}},
	}
}

func TestPlans_OmitsPlansWithoutEffect(t *testing.T) {
	plans, pruned := Plans(twoWrites(), false)
	var texts []string
	for _, plan := range plans {
		texts = append(texts, plan.String())
	}
	want := []string{
		// A crash before the first write equals a crash at the beginning.
		"crash-after@1", "crash-after@1/list@1", "crash-after@1/list@0", "lost@1", "unavailable@1", "conflict@1",
		// A crash before the second write equals a crash after the first one. The states after both changes are equal.
		"crash-after@2", "crash-after@2/list@2", "crash-after@2/list@0", "lost@2", "unavailable@2", "conflict@2",
		// The watch events 2 and 3 are the last events of their objects.
		"unseen@1",
	}
	if !slices.Equal(texts, want) {
		t.Errorf("plans %q, want %q", texts, want)
	}
	if pruned != 8 {
		t.Errorf("%d pruned plans, want 8", pruned)
	}
	pairs, _ := Plans(twoWrites(), true)
	// Each of the two writes has four kinds of faults. The fault of the watch event is combined with each of these
	// eight faults.
	if n := len(pairs) - len(plans); n != 4*4+8 {
		t.Errorf("%d pairs, want 24", n)
	}
}

func TestExplore_ComparesWithTheReferenceRun(t *testing.T) {
	for name, test := range map[string]struct {
		spoil func(*Run)
		kind  string
	}{
		"an equal run":                           {func(*Run) {}, ""},
		"another state":                          {func(r *Run) { r.QuietStates = []QuietState{{ExternalDump: "2", External: "2"}} }, "external state"},
		"an operator that does not become quiet": {func(r *Run) { r.Problem = "not quiet" }, "not finished"},
		"a repeated handler call":                {func(r *Run) { r.Calls = append(r.Calls, Call{Name: "a", Text: "a", RecordedBefore: 1}) }, "repeated"},
		"an unwritten call":                      {func(r *Run) { r.Calls = append(r.Calls, Call{Name: "a", Text: "a"}) }, ""},
		"writes after the last step":             {func(r *Run) { r.LateWrites = []string{"patch"} }, "late writes"},
	} {
		runner := func(_ *testing.T, plan Plan) *Run {
			run := twoWrites()
			run.Calls = []Call{{Name: "a", Text: "a"}}
			run.QuietStates, run.Injected = []QuietState{{ExternalDump: "1", External: "1"}}, len(plan)
			if plan.String() == "lost@2" {
				test.spoil(run)
			}
			return run
		}
		report := Explore(t, runner, Options{})
		found := ""
		for _, v := range report.Violations {
			found += v.Kind + " after " + v.Plan.String()
		}
		want := ""
		if test.kind != "" {
			want = test.kind + " after lost@2"
		}
		if found != want {
			t.Errorf("%s: violations %q, want %q", name, found, want)
		}
		if report.Made != report.Pruned+report.Ran || report.Ran != 13 {
			t.Errorf("%s: made %d, pruned %d, ran %d plans; want 13 runs, and made = pruned + ran", name, report.Made, report.Pruned, report.Ran)
		}
		if sampled := Explore(t, runner, Options{Sample: 5}); sampled.Ran != 5 {
			t.Errorf("%s: %d plans run with Sample: 5, want 5", name, sampled.Ran)
		}
	}
}

func TestStream_MergesUnseenEvents(t *testing.T) {
	const pause = "pause"
	for name, test := range map[string]struct {
		lines []string // type, name, version
		want  []string
	}{
		"an update":                  {[]string{"MODIFIED one 1", "MODIFIED one 2"}, []string{"MODIFIED one 2"}},
		"a creation":                 {[]string{"ADDED one 1", "MODIFIED one 2"}, []string{"ADDED one 2"}},
		"a creation and deletion":    {[]string{"ADDED one 1", "DELETED one 2", "ADDED two 3"}, []string{"ADDED two 3"}},
		"a deletion":                 {[]string{"DELETED one 1", "ADDED one 2"}, []string{"MODIFIED one 2"}},
		"an event of another object": {[]string{"MODIFIED one 1", "MODIFIED two 2", "MODIFIED one 3"}, []string{"MODIFIED two 2", "MODIFIED one 3"}},
		"the last event":             {[]string{"MODIFIED one 1"}, []string{"MODIFIED one 1"}},
		"the end of the delay":       {[]string{"MODIFIED one 1", pause, "MODIFIED one 2"}, []string{"MODIFIED one 1", "MODIFIED one 2"}},
	} {
		synctest.Test(t, func(t *testing.T) {
			from, to := io.Pipe()
			injector := NewInjector(Plan{{Kind: Unseen, At: 1}}, func() Moment { return Moment{} })
			stream := injector.Watch("widgets", false, from)
			go func() {
				for _, line := range test.lines {
					if line == pause {
						<-time.After(2 * maxHold)
						continue
					}
					f := strings.Fields(line)
					_, _ = fmt.Fprintf(to, `{"type":%q,"object":{"metadata":{"name":%q,"resourceVersion":%q}}}`+"\n", f[0], f[1], f[2])
				}
				_ = to.Close()
			}()
			var got []string
			for decoder := json.NewDecoder(stream); ; {
				var e event
				if err := decoder.Decode(&e); err != nil {
					break
				}
				got = append(got, fmt.Sprintf("%s %s %s", e.Type, e.meta()["name"], e.meta()["resourceVersion"]))
			}
			_ = stream.Close()
			if !slices.Equal(got, test.want) {
				t.Errorf("%s: the client receives %q, want %q", name, got, test.want)
			}
		})
	}
}

// A stream delays one event at a time. Faults at other events during the delay have no effect, so they do not count as injected.
func TestStream_CountsOnlyDelayedEvents(t *testing.T) {
	for name, objects := range map[string][]string{
		"an event of the same object": {"one", "one"},
		"an event of another object":  {"one", "two", "one"},
	} {
		synctest.Test(t, func(t *testing.T) {
			var lines strings.Builder
			for _, object := range objects {
				fmt.Fprintf(&lines, `{"type":"MODIFIED","object":{"metadata":{"name":%q}}}`+"\n", object)
			}
			injector := NewInjector(Plan{{Kind: Unseen, At: 1}, {Kind: Unseen, At: 2}}, func() Moment { return Moment{} })
			if _, err := io.ReadAll(injector.Watch("widgets", false, io.NopCloser(strings.NewReader(lines.String())))); err != nil {
				t.Fatal(err)
			}
			var run Run
			if injector.CopyTo(&run); run.Injected != 1 || len(run.WatchEvents) != len(objects) {
				t.Errorf("%s: injected %d faults at %d watch events, want 1 at %d", name, run.Injected, len(run.WatchEvents), len(objects))
			}
		})
	}
}

// The events of an initial list are not counted.
func TestStream_IgnoresInitialEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lines := `{"type":"ADDED","object":{"metadata":{"name":"one"}}}
{"type":"BOOKMARK","object":{"metadata":{"annotations":{"k8s.io/initial-events-end":"true"}}}}
{"type":"MODIFIED","object":{"metadata":{"name":"one"}}}
`
		injector := NewInjector(nil, func() Moment { return Moment{} })
		got, err := io.ReadAll(injector.Watch("widgets", true, io.NopCloser(strings.NewReader(lines))))
		if err != nil || string(got) != lines {
			t.Errorf("the client receives %s, %v; want %s", got, err, lines)
		}
		var run Run
		if injector.CopyTo(&run); len(run.WatchEvents) != 1 {
			t.Errorf("recorded watch events %v, want one", run.WatchEvents)
		}
	})
}

func TestWrittenFieldGroups(t *testing.T) {
	for body, want := range map[string]string{
		`{"metadata":{"uid":"x","resourceVersion":"1","finalizers":[]}}`:                                             "finalizers",
		`{"metadata":{"annotations":{"kopf.zalando.org/a":null,"kopf.zalando.org/last-handled-configuration":"x"}}}`: "baseline progress",
		`{"metadata":{"annotations":{"kopf.zalando.org/pinned-configuration":"x","example.com/a":"y"}}}`:             "annotations pin",
		`{"spec":{"size":1},"status":{"phase":"x","conditions":[],"kopf":{"progress":{}}}}`:                          "spec status status.conditions status.kopf",
		`[{"op":"test","path":"/spec/size"},{"op":"add","path":"/metadata/annotations/kopf.zalando.org~1a"}]`:        "progress",
		`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x"},"data":{"a":"b"}}`:                            "data",
	} {
		var value any
		if err := json.Unmarshal([]byte(body), &value); err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(WrittenFieldGroups(value), " "); got != want {
			t.Errorf("WrittenFieldGroups(%s) = %q, want %q", body, got, want)
		}
	}
}

func TestNormalizeState_IgnoresAnEmptyStatus(t *testing.T) {
	state := func(status any) map[string]any {
		return NormalizeState([]map[string]any{{"kind": "Pod", "metadata": map[string]any{"name": "orders"}, "status": status}}, []string{"status.seen"})
	}
	for name, status := range map[string]any{
		"empty":                map[string]any{},
		"with ignored fields":  map[string]any{"seen": "now"},
		"with kopf's progress": map[string]any{"kopf": map[string]any{"progress": "x"}},
	} {
		want := map[string]any{"Pod orders": []any{map[string]any{"kind": "Pod", "metadata": map[string]any{"name": "orders"}}}}
		if got := state(status); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
	if got := state(map[string]any{"phase": "Running"}); !strings.Contains(fmt.Sprint(got), "Running") {
		t.Errorf("state %v, want the status phase Running", got)
	}
}
