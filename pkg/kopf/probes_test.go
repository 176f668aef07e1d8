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

// asked is what the probes of an operator answer.
func asked(ctx context.Context, operator *kopf.Operator) (code int, body string) {
	w := httptest.NewRecorder()
	operator.ServeProbes().ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodGet, "/", nil))
	return w.Code, strings.TrimSpace(w.Body.String())
}

func answers(t *testing.T, what string, operator *kopf.Operator, code int, body string) {
	t.Helper()
	gotCode, gotBody := asked(t.Context(), operator)
	if gotCode != code || !strings.Contains(gotBody, body) {
		t.Errorf("%s: answer = %d %s, want %d %s", what, gotCode, gotBody, code, body)
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
		{"PROBE-02 values by ids", []kopf.Option{kopf.OnProbe("b", value(1, nil)), kopf.OnProbe("a", value(map[string]any{"x": "y"}, nil))}, http.StatusOK, `{"a":{"x":"y"},"b":1}`},
		{"PROBE-02 nil is no value", []kopf.Option{kopf.OnProbe("a", value(nil, nil)), kopf.OnProbe("b", value("", nil))}, http.StatusOK, `{"b":""}`},
		{"PROBE-04 one has failed", []kopf.Option{kopf.OnProbe("a", value(1, nil)), kopf.OnProbe("b", value(nil, errBroken))}, http.StatusInternalServerError, `"b": broken`},
		{"PROBE-04 one panics", []kopf.Option{kopf.OnProbe("b", func(context.Context) (any, error) { panic("oh") })}, http.StatusInternalServerError, `"b": panic: oh`},
		{"PROBE-04 RES-07 a value without a JSON form", []kopf.Option{kopf.OnProbe("b", value(func() {}, nil))}, http.StatusInternalServerError, `"b"`},
	} {
		t.Run(test.name, func(t *testing.T) {
			answers(t, "answer", newOperator(&fakeManager{}, test.options...), test.code, test.body)
		})
	}
}

func TestServeProbes_CachesValues(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls, err := 0, error(nil)
		operator := newOperator(&fakeManager{}, kopf.OnProbe("n", func(context.Context) (any, error) { calls++; return calls, err }))
		answers(t, "the first one", operator, http.StatusOK, `{"n":1}`)
		<-time.After(10*time.Second - time.Millisecond)
		answers(t, "PROBE-03 within ten seconds", operator, http.StatusOK, `{"n":1}`)
		<-time.After(time.Millisecond)
		answers(t, "PROBE-03 after that", operator, http.StatusOK, `{"n":2}`)

		<-time.After(10 * time.Second)
		err = errBroken
		began := time.Now()
		answers(t, "PROBE-04 SE-42 a failure", operator, http.StatusInternalServerError, "broken")
		equal(t, "SE-42 it is not retried", time.Since(began), time.Duration(0))
		err = nil
		answers(t, "PROBE-03 a failure is kept, too", operator, http.StatusInternalServerError, "broken")
		<-time.After(10 * time.Second)
		answers(t, "PROBE-04 but not for longer", operator, http.StatusOK, `{"n":4}`)
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
		wg.Go(func() { answers(t, "PROBE-03 the same for all", operator, http.StatusOK, `{"n":1}`) })
	}
	<-entered
	close(release)
	wg.Wait()
	equal(t, "PROBE-03 one evaluation", calls, 1)
}

// Who hangs up spoils the answer for nobody else.
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
		impatient, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		asked(impatient, operator)
		answers(t, "PROBE-03 the next one", operator, http.StatusOK, `{"n":"here"}`)
	})
}

// MEMO-02: probes have the memo of the operator.
func TestServeProbes_ShareMemoOfOperator(t *testing.T) {
	memo := kopf.NewMemo[string]("state")
	operator := newOperator(&fakeManager{},
		kopf.OnStartup("store", func(ctx context.Context) error { memo.Store(ctx, "started"); return nil }),
		kopf.OnProbe("state", func(ctx context.Context) (any, error) { value, _ := memo.Load(ctx); return value, nil }))
	_ = operator.Start(t.Context())
	answers(t, "MEMO-02 the value", operator, http.StatusOK, `{"state":"started"}`)
}
