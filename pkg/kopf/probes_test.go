package kopf_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
)

// getProbes returns the response of the probes.
func getProbes(ctx context.Context, operator *kopf.Operator) (code int, body string) {
	w := httptest.NewRecorder()
	operator.ServeProbes().ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodGet, "/", nil))
	return w.Code, strings.TrimSpace(w.Body.String())
}

// wantProbes checks the status and the body of the response of the probes.
func wantProbes(t *testing.T, subject string, operator *kopf.Operator, code int, body string) {
	t.Helper()
	gotCode, gotBody := getProbes(t.Context(), operator)
	if gotCode != code || !strings.Contains(gotBody, body) {
		t.Errorf("%s: response = %d %s, want %d %s", subject, gotCode, gotBody, code, body)
	}
}

func TestServeProbes(t *testing.T) {
	value := func(v any, err error) func(context.Context) (any, error) {
		return func(context.Context) (any, error) { return v, err }
	}
	for _, test := range []struct {
		name    string
		options []kopf.Option
		code    int
		body    string
	}{
		{"PROBE-02 none", nil, http.StatusOK, `{}`},
		{"PROBE-02 one value per id", []kopf.Option{kopf.OnProbe("b", value(1, nil)), kopf.OnProbe("a", value(map[string]any{"x": "y"}, nil))}, http.StatusOK, `{"a":{"x":"y"},"b":1}`},
		{"PROBE-02 a nil value is omitted", []kopf.Option{kopf.OnProbe("a", value(nil, nil)), kopf.OnProbe("b", value("", nil))}, http.StatusOK, `{"b":""}`},
		{"PROBE-04 a probe fails", []kopf.Option{kopf.OnProbe("a", value(1, nil)), kopf.OnProbe("b", value(nil, errBroken))}, http.StatusInternalServerError, `"b": broken`},
		{"PROBE-04 a probe panics", []kopf.Option{kopf.OnProbe("b", func(context.Context) (any, error) { panic("oh") })}, http.StatusInternalServerError, `"b": panic: oh`},
		{"PROBE-04 RES-07 a value that cannot be encoded", []kopf.Option{kopf.OnProbe("b", value(func() {}, nil))}, http.StatusInternalServerError, `"b"`},
	} {
		t.Run(test.name, func(t *testing.T) {
			wantProbes(t, "answer", newOperator(&fakeManager{}, test.options...), test.code, test.body)
		})
	}
}

func TestServeProbes_CachesValues(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls, err := 0, error(nil)
		operator := newOperator(&fakeManager{}, kopf.OnProbe("n", func(context.Context) (any, error) { calls++; return calls, err }))
		wantProbes(t, "first request", operator, http.StatusOK, `{"n":1}`)
		<-time.After(10*time.Second - time.Millisecond)
		wantProbes(t, "PROBE-03 request within ten seconds", operator, http.StatusOK, `{"n":1}`)
		<-time.After(time.Millisecond)
		wantProbes(t, "PROBE-03 request after ten seconds", operator, http.StatusOK, `{"n":2}`)

		<-time.After(10 * time.Second)
		err = errBroken
		began := time.Now()
		wantProbes(t, "PROBE-04 SE-42 request with a failed probe", operator, http.StatusInternalServerError, "broken")
		equal(t, "SE-42 time of the failed request", time.Since(began), time.Duration(0))
		err = nil
		wantProbes(t, "PROBE-03 request within ten seconds of a failure", operator, http.StatusInternalServerError, "broken")
		<-time.After(10 * time.Second)
		wantProbes(t, "PROBE-04 request ten seconds after a failure", operator, http.StatusOK, `{"n":4}`)
	})
}

func TestServeProbes_EvaluatesOnceAtATime(t *testing.T) {
	calls, entered, release := 0, make(chan struct{}), make(chan struct{})
	operator := newOperator(&fakeManager{}, kopf.OnProbe("n", func(context.Context) (any, error) {
		if calls++; calls == 1 {
			close(entered)
		}
		<-release
		return calls, nil
	}))
	var wg sync.WaitGroup
	for range 5 {
		wg.Go(func() { wantProbes(t, "PROBE-03 concurrent request", operator, http.StatusOK, `{"n":1}`) })
	}
	<-entered
	close(release)
	wg.Wait()
	equal(t, "PROBE-03 number of evaluations", calls, 1)
}

// A cancelled request does not affect later requests.
func TestServeProbes_CanceledRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		operator := newOperator(&fakeManager{}, kopf.OnProbe("n", func(ctx context.Context) (any, error) {
			select {
			case <-time.After(3 * time.Second):
				return "here", nil
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}))
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		getProbes(short, operator)
		wantProbes(t, "PROBE-03 next request", operator, http.StatusOK, `{"n":"here"}`)
	})
}

// MEMO-02: probes share the memos of the operator.
func TestServeProbes_ShareMemoOfOperator(t *testing.T) {
	memo := kopf.NewMemo[string]("state")
	operator := newOperator(&fakeManager{},
		kopf.OnStartup("store", func(ctx context.Context) error { memo.Store(ctx, "started"); return nil }),
		kopf.OnProbe("state", func(ctx context.Context) (any, error) { value, _ := memo.Load(ctx); return value, nil }))
	_ = operator.Start(t.Context())
	wantProbes(t, "MEMO-02 value of the memo", operator, http.StatusOK, `{"state":"started"}`)
}
