package statuspage_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kopf-runtime/kopf-runtime/internal/parts/statuspage"
	"github.com/kopf-runtime/kopf-runtime/pkg/explain"
)

// source is an operator with fixed objects.
type source struct {
	kinds        []statuspage.Kind
	explanations map[string]*explain.Explanation // by kind.group/namespace/name
	err          error                           // of explanations
}

// stopped is an operator that is not running.
type stopped struct{}

func (stopped) Kinds() ([]statuspage.Kind, error) { return nil, statuspage.ErrNotRunning }

func (stopped) Explain(context.Context, schema.GroupKind, types.NamespacedName) (*explain.Explanation, error) {
	return nil, statuspage.ErrNotRunning
}

func (s source) Kinds() ([]statuspage.Kind, error) { return s.kinds, nil }

func (s source) Explain(_ context.Context, kind schema.GroupKind, key types.NamespacedName) (*explain.Explanation, error) {
	if s.err != nil {
		return nil, s.err
	}
	explanation := s.explanations[kind.String()+"/"+key.String()]
	if explanation == nil {
		return nil, fmt.Errorf("%w %s", statuspage.ErrUnknownKind, kind)
	}
	return explanation, nil
}

// noon is the time of all explanations.
var noon = time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)

func in(d time.Duration) *time.Time {
	due := noon.Add(d)
	return &due
}

func attempt(handler, reason string, number int, started, duration time.Duration, state explain.State, message string) explain.Attempt {
	return explain.Attempt{Handler: handler, Reason: reason, Number: number, Started: noon.Add(started), Ended: noon.Add(started + duration), State: state, Error: message}
}

// example is an operator with a few objects in all states.
func example() source {
	return source{
		kinds: []statuspage.Kind{{
			Group: "shop.example.com", Version: "v1", Kind: "Database", Handlers: []string{"provision", "users", "backup", "health", "release"},
			Objects: []statuspage.Object{
				{Namespace: "shop", Name: "carts", Paused: true, Waits: []string{"the operator is paused: a peer has a higher priority"}},
				{Namespace: "shop", Name: "invoices", Deleting: true, Unfinished: []statuspage.Unfinished{{Handler: "release", State: explain.Due, Attempts: 1}}},
				{
					Namespace: "shop", Name: "orders", Error: `handler "provision": the disk pool ssd-2 is full`,
					Unfinished: []statuspage.Unfinished{
						{Handler: "provision", State: explain.Waiting, Attempts: 3, Error: "the disk pool ssd-2 is full"},
						{Handler: "users", State: explain.Failed, Attempts: 5, Error: "the role reporting does not exist"},
					},
				},
				{Namespace: "shop", Name: "products", Unfinished: []statuspage.Unfinished{{Handler: "provision", State: explain.Waiting, Attempts: 1}}},
				{Namespace: "shop", Name: "sessions", Looping: true},
			},
		}, {
			Version: "v1", Kind: "ConfigMap", Handlers: []string{"render"}, Objects: []statuspage.Object{{Namespace: "shop", Name: "settings"}},
		}},
		explanations: map[string]*explain.Explanation{
			"Database.shop.example.com/shop/orders": {
				APIVersion: "shop.example.com/v1", Kind: "Database", Namespace: "shop", Name: "orders", Source: explain.FromOperator, Time: noon,
				Cause: "update", Changed: []string{"spec.size", "spec.users"}, Finalizer: true, OtherFinalizers: []string{"example.com/audit"},
				Handlers: []explain.Handler{
					{ID: "provision", Kind: "cause", State: explain.Waiting, Why: "the last attempt failed", Attempts: 3, Started: in(-11 * time.Minute), Due: in(4 * time.Minute), LastError: "the disk pool ssd-2 is full"},
					{ID: "users", Kind: "cause", State: explain.Failed, Why: "the last attempt failed permanently", Attempts: 5, Started: in(-11 * time.Minute), Ended: in(-90 * time.Second), LastError: "the role reporting does not exist"},
					{ID: "grants", Kind: "cause", State: explain.Blocked, Why: "the handler users must succeed first"},
					{ID: "backup", Kind: "timer", State: explain.Waiting, Why: "the interval is 1h", Due: in(37 * time.Minute)},
					{ID: "health", Kind: "timer", State: explain.Waiting, Why: "the interval is 30s", Due: in(12 * time.Second)},
					{ID: "replicate", Kind: "daemon", State: explain.Active, Why: "it is running"},
					{ID: "release", Kind: "cause", State: explain.NotSelected, Why: "it is for the cause delete"},
					{ID: "migrate", Kind: "cause", State: explain.Filtered, Why: `the label "legacy" must be present`},
				},
				Attempts: []explain.Attempt{
					attempt("provision", "update", 1, -11*time.Minute, 40*time.Second, explain.Retrying, "the disk pool ssd-2 is full"),
					{Handler: "replicate", Reason: "daemon", Number: 1, Started: noon.Add(-10 * time.Minute), State: explain.Active},
					attempt("users", "update", 4, -7*time.Minute, 300*time.Millisecond, explain.Retrying, "the role reporting does not exist"),
					attempt("provision", "update", 2, -6*time.Minute, 35*time.Second, explain.Retrying, "the disk pool ssd-2 is full"),
					attempt("users", "update", 5, -90*time.Second, 200*time.Millisecond, explain.Failed, "the role reporting does not exist"),
					attempt("provision", "update", 3, -65*time.Second, 30*time.Second, explain.Retrying, "the disk pool ssd-2 is full"),
					attempt("health", "timer", 1, -48*time.Second, 12*time.Millisecond, explain.Succeeded, ""),
					attempt("health", "timer", 1, -18*time.Second, 11*time.Millisecond, explain.Succeeded, ""),
				},
			},
			"ConfigMap/shop/settings": {
				APIVersion: "v1", Kind: "ConfigMap", Namespace: "shop", Name: "settings", Source: explain.FromOperator, Time: noon, Cause: "noop",
				Waits: []string{"the operator is paused: a peer has a higher priority"},
			},
		},
	}
}

func request(t *testing.T, s statuspage.Source, method, target string) *httptest.ResponseRecorder {
	t.Helper()
	recorder := httptest.NewRecorder()
	statuspage.New(s).ServeHTTP(recorder, httptest.NewRequestWithContext(t.Context(), method, target, nil))
	return recorder
}

func TestNew_Responses(t *testing.T) {
	unavailable := example()
	unavailable.err = fmt.Errorf("read the object: %w", apierrors.NewTimeoutError("the API server is busy", 1))
	for _, test := range []struct {
		name           string
		source         statuspage.Source
		method, target string
		status         int
		mediaType      string
		contains       string
	}{
		{"page", example(), http.MethodGet, "/kopf/", 200, "text/html; charset=utf-8", "<h1>Operator status</h1>"},
		{"head", example(), http.MethodHead, "/kopf/", 200, "text/html; charset=utf-8", ""},
		{"script", example(), http.MethodGet, "/kopf/page.js", 200, "text/javascript; charset=utf-8", "textContent"},
		{"style", example(), http.MethodGet, "/kopf/page.css", 200, "text/css; charset=utf-8", "prefers-color-scheme"},
		{"objects", example(), http.MethodGet, "/kopf/objects", 200, "application/json", `"name":"orders"`},
		{"explain", example(), http.MethodGet, "/kopf/explain?group=shop.example.com&kind=Database&namespace=shop&name=orders", 200, "application/json", `"cause":"update"`},
		{"explain, core group", example(), http.MethodGet, "/kopf/explain?kind=ConfigMap&namespace=shop&name=settings", 200, "application/json", `"cause":"noop"`},
		{"explain without name", example(), http.MethodGet, "/kopf/explain?kind=Database", 400, "application/json", "set the parameters kind and name"},
		{"explain without kind", example(), http.MethodGet, "/kopf/explain?name=orders", 400, "application/json", "set the parameters kind and name"},
		{"explain, unknown kind", example(), http.MethodGet, "/kopf/explain?kind=Table&name=orders", 404, "application/json", "no objects of the kind Table"},
		{"explain, not running", stopped{}, http.MethodGet, "/kopf/explain?kind=Table&name=orders", 503, "application/json", "not running"},
		{"explain, API error", unavailable, http.MethodGet, "/kopf/explain?kind=ConfigMap&name=settings", 502, "application/json", "the API server is busy"},
		{"objects, not running", stopped{}, http.MethodGet, "/kopf/objects", 503, "application/json", "not running"},
		{"unknown path", example(), http.MethodGet, "/kopf/secrets", 404, "text/plain; charset=utf-8", ""},
		{"path outside the page", example(), http.MethodGet, "/kopf/../metrics", 307, "", ""},
		{"write to the page", example(), http.MethodPost, "/kopf/", 405, "text/plain; charset=utf-8", ""},
		{"write to objects", example(), http.MethodDelete, "/kopf/objects", 405, "text/plain; charset=utf-8", ""},
		{"write to explain", example(), http.MethodPost, "/kopf/explain?kind=ConfigMap&name=settings", 405, "text/plain; charset=utf-8", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			response := request(t, test.source, test.method, test.target)
			if response.Code != test.status {
				t.Errorf("status %d, want %d: %s", response.Code, test.status, response.Body)
			}
			if mediaType := response.Header().Get("Content-Type"); test.mediaType != "" && mediaType != test.mediaType {
				t.Errorf("Content-Type %q, want %q", mediaType, test.mediaType)
			}
			if !strings.Contains(response.Body.String(), test.contains) {
				t.Errorf("the body does not contain %q: %s", test.contains, response.Body)
			}
			policy := response.Header().Get("Content-Security-Policy")
			for _, directive := range []string{"default-src 'none'", "script-src 'self'", "style-src 'self'", "connect-src 'self'", "frame-ancestors 'none'"} {
				if !slices.Contains(strings.Split(policy, "; "), directive) {
					t.Errorf("the Content-Security-Policy does not contain %q: %s", directive, policy)
				}
			}
			for name, want := range map[string]string{"X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "Cache-Control": "no-store"} {
				if got := response.Header().Get(name); got != want {
					t.Errorf("%s is %q, want %q", name, got, want)
				}
			}
		})
	}
}

func TestNew_ObjectsAreJSON(t *testing.T) {
	var kinds []statuspage.Kind
	if err := json.Unmarshal(request(t, example(), http.MethodGet, statuspage.ObjectsPath).Body.Bytes(), &kinds); err != nil {
		t.Fatal(err)
	}
	if want := example().kinds; !reflect.DeepEqual(kinds, want) {
		t.Errorf("got  %+v\nwant %+v", kinds, want)
	}
}

func TestNew_ExplanationIsJSONWithSummary(t *testing.T) {
	body := request(t, example(), http.MethodGet, statuspage.ExplainPath+"?group=shop.example.com&kind=Database&namespace=shop&name=orders").Body.Bytes()
	var got struct {
		explain.Explanation

		Summary string `json:"summary"`
	}
	if err := json.Unmarshal(body, &got); err != nil {
		t.Fatal(err)
	}
	want := example().explanations["Database.shop.example.com/shop/orders"]
	if !reflect.DeepEqual(&got.Explanation, want) {
		t.Errorf("got  %+v\nwant %+v", got.Explanation, want)
	}
	if got.Summary != want.Summary() {
		t.Errorf("summary %q, want %q", got.Summary, want.Summary())
	}
}

// The list has no fields for values of objects, annotations or Secrets. A new field needs a new entry, after a check that it contains none of them.
func TestKind_Fields(t *testing.T) {
	for value, want := range map[any]string{
		reflect.TypeFor[statuspage.Kind]():       "Group Version Kind Handlers Objects",
		reflect.TypeFor[statuspage.Object]():     "Namespace Name Unfinished Deleting Paused Looping Waits Error",
		reflect.TypeFor[statuspage.Unfinished](): "Handler State Attempts Error",
	} {
		var names []string
		for field := range value.(reflect.Type).Fields() {
			names = append(names, field.Name)
		}
		if got := strings.Join(names, " "); got != want {
			t.Errorf("%s has the fields %s, want %s", value, got, want)
		}
	}
}

func TestFiles_NoMarkupFromTextAndNoExternalAssets(t *testing.T) {
	for file, forbidden := range map[string]string{
		"page.html": `https?:|(?:src|href)="(?://|data:|javascript:)|<style|\sstyle=|\son[a-z]+=|<script(?:>|[^>]*>[^<])|<iframe|<base`,
		"page.js":   `innerHTML|outerHTML|insertAdjacentHTML|createContextualFragment|setHTML|DOMParser|document\.write|srcdoc|eval\(|Function\(|import|https?:|['"]//|\.on[a-z]+ ?=[^=>]|setAttribute\('on|Storage|cookie`,
		"page.css":  `@import|url\(|https?:|expression\(`,
	} {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if len(content) == 0 {
			t.Errorf("%s is empty", file)
		}
		if found := regexp.MustCompile(forbidden).FindAllString(string(content), -1); found != nil {
			t.Errorf("%s contains %q", file, found)
		}
	}
}
