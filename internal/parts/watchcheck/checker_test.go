package watchcheck_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/internal/apiserver"
	"github.com/kopf-runtime/kopf-runtime/internal/parts/watchcheck"
)

// fakeInformer is an informer whose resource version is set by the test.
type fakeInformer struct {
	cache.Informer
	mu      sync.Mutex
	version string
}

func (s *fakeInformer) LastSyncResourceVersion() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.version
}

func (s *fakeInformer) receive(version string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version = version
}

// faultTransport returns errors instead of the responses of the API server, or swallows the events of watches.
type faultTransport struct {
	next http.RoundTripper
	mu   sync.Mutex
	code int  // the status code of all responses; 0 for those of the API server
	mute bool // whether watches deliver nothing
	sent []string
}

func (w *faultTransport) set(code int, mute bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.code, w.mute = code, mute
}

func (w *faultTransport) requests() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.sent
}

func (w *faultTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	w.mu.Lock()
	code, mute := w.code, w.mute
	if r.Method == http.MethodGet {
		w.sent = append(w.sent, r.URL.String())
	}
	w.mu.Unlock()
	if code != 0 {
		text, err := json.Marshal(metav1.Status{
			TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure, Code: int32(code),
			Reason:  map[int]metav1.StatusReason{403: metav1.StatusReasonForbidden, 404: metav1.StatusReasonNotFound, 410: metav1.StatusReasonExpired}[code],
			Message: fmt.Sprintf("code %d", code),
		})
		return &http.Response{StatusCode: code, Request: r, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(bytes.NewReader(text))}, err
	}
	response, err := w.next.RoundTrip(r)
	if err == nil && mute && r.URL.Query().Get("watch") != "" {
		response.Body = silentBody{response.Body}
	}
	return response, err
}

type silentBody struct{ io.ReadCloser }

func (s silentBody) Read([]byte) (int, error) {
	_, err := io.Copy(io.Discard, s.ReadCloser)
	if err == nil {
		err = io.EOF
	}
	return 0, err
}

// fixture is a checker of config maps with an interval of one minute.
type fixture struct {
	*watchcheck.Checker
	*faultTransport
	stream *fakeInformer
	users  client.Client

	undecodable atomic.Bool // whether an object does not decode
	searches    atomic.Int64
}

// checkDecoding implements the option of the checker.
func (s *fixture) checkDecoding(_ context.Context, namespace string, missesChanges bool) error {
	if !missesChanges {
		return nil
	}
	if s.searches.Add(1); s.undecodable.Load() {
		return fmt.Errorf("ConfigMap: an object of namespace %q does not decode", namespace)
	}
	return nil
}

func runChecker(t *testing.T, act func(t *testing.T, s *fixture)) {
	synctest.Test(t, func(t *testing.T) {
		scheme := clientgoscheme.Scheme
		resource := apiserver.Resource{GroupVersion: corev1.SchemeGroupVersion, Kind: "ConfigMap", Plural: "configmaps"}
		s := &fixture{faultTransport: &faultTransport{next: apiserver.New(resource)}, stream: &fakeInformer{}}
		mapper := meta.NewDefaultRESTMapper(nil)
		mapper.Add(corev1.SchemeGroupVersion.WithKind("ConfigMap"), meta.RESTScopeNamespace)
		config := &rest.Config{Host: "http://in-memory", Transport: s.faultTransport, ContentConfig: rest.ContentConfig{ContentType: runtime.ContentTypeJSON}, QPS: -1}
		direct, err := client.NewWithWatch(config, client.Options{Scheme: scheme, Mapper: mapper})
		if err != nil {
			t.Fatal(err)
		}
		s.users = direct
		s.Checker = watchcheck.New(watchcheck.Options{
			Kind: "configmap", GVK: corev1.SchemeGroupVersion.WithKind("ConfigMap"), Client: direct, Interval: time.Minute, Log: logr.Discard(), CheckDecoding: s.checkDecoding,
			Informer: func(context.Context) (cache.Informer, error) { return s.stream, nil },
		})
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { s.Run(ctx); close(done) }()
		s.stream.receive(s.create(t))
		act(t, s)
		stop()
		<-done
	})
}

// create creates an object and returns its version.
func (s *fixture) create(t *testing.T) string {
	t.Helper()
	obj := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", GenerateName: "one-"}}
	if err := s.users.Create(t.Context(), obj); err != nil {
		t.Fatal(err)
	}
	return obj.ResourceVersion
}

// minutes waits for a number of minutes of virtual time.
func minutes(n int) { <-time.After(time.Duration(n) * time.Minute) }

func (s *fixture) expect(t *testing.T, when string, reasons ...watchcheck.Reason) {
	t.Helper()
	<-time.After(10 * time.Second) // a running probe needs some more time
	var got []watchcheck.Reason
	for _, p := range s.Problems() {
		got = append(got, p.Reason)
		if p.Error() == "" || !strings.Contains(p.Error(), "ConfigMap") && p.Reason != watchcheck.NotServed {
			t.Errorf("%s: the text %q does not name the kind", when, p.Error())
		}
	}
	if fmt.Sprint(got) != fmt.Sprint(reasons) {
		t.Errorf("%s: %v, want %v", when, got, reasons)
	}
}

func TestWatch_Healthy(t *testing.T) {
	runChecker(t, func(t *testing.T, s *fixture) {
		minutes(30)
		s.expect(t, "an idle kind without heartbeats")
		if n := len(s.requests()); n != 30 {
			t.Errorf("got %d requests in 30 minutes, want 30: %v", n, s.requests())
		}
		for range 10 {
			minutes(1)
			s.stream.receive(s.create(t))
			s.create(t) // the informer lags, but receives changes
			s.expect(t, "a busy kind")
		}
	})
}

func TestWatch_Refused(t *testing.T) {
	for code, reason := range map[int]watchcheck.Reason{403: watchcheck.Forbidden, 401: watchcheck.Forbidden, 404: watchcheck.NotServed} {
		runChecker(t, func(t *testing.T, s *fixture) {
			minutes(5)
			s.set(code, false)
			minutes(1)
			s.expect(t, fmt.Sprint("after ", code), reason)
			s.set(500, false)
			minutes(5)
			s.expect(t, "while the API server is down", reason)
			s.set(0, false)
			minutes(1)
			s.expect(t, "after the end of the fault")
		})
	}
}

func TestWatch_RefusedBeforeTheFirstListing(t *testing.T) {
	runChecker(t, func(t *testing.T, s *fixture) {
		s.stream.receive("")
		s.set(403, false)
		minutes(1)
		s.expect(t, "an informer that has listed nothing", watchcheck.Forbidden)
		s.set(0, false)
		minutes(10)
		s.expect(t, "an informer that is still listing")
	})
}

func TestWatch_SilentWhileObjectsChange(t *testing.T) {
	runChecker(t, func(t *testing.T, s *fixture) {
		minutes(5)
		s.expect(t, "before the change")
		version := s.create(t)
		minutes(3)
		s.expect(t, "a short lag")
		minutes(1)
		s.expect(t, "after two probes with missed changes", watchcheck.Silent)
		minutes(20)
		s.expect(t, "later", watchcheck.Silent)
		if age := s.Problems()[0].Age; age < 20*time.Minute {
			t.Errorf("age of the problem = %s, want at least 20m", age)
		}
		s.stream.receive(version)
		minutes(1)
		s.expect(t, "when the informer has received the change")
	})
}

// An informer that cannot decode an object delivers nothing. The checker reports this at the first doubt, and searches for objects only then.
func TestWatch_Undecodable(t *testing.T) {
	runChecker(t, func(t *testing.T, s *fixture) {
		minutes(10)
		if n := s.searches.Load(); n != 0 {
			t.Errorf("a healthy watch has caused %d searches", n)
		}
		behind := s.create(t)
		for range 600 { // the informer of a busy kind is always a second behind, but goes on
			next := s.create(t)
			<-time.After(time.Second)
			s.stream.receive(behind)
			behind = next
		}
		s.stream.receive(behind)
		if n := s.searches.Load(); n != 0 {
			t.Errorf("a busy watch has caused %d searches", n)
		}
		s.undecodable.Store(true)
		version := s.create(t)
		minutes(2)
		s.expect(t, "after a probe with missed changes", watchcheck.Undecodable)
		if text := s.Problems()[0].Error(); text != `ConfigMap: an object of namespace "" does not decode` {
			t.Errorf("the problem is %q", text)
		}
		minutes(20)
		s.expect(t, "later", watchcheck.Undecodable)
		s.undecodable.Store(false)
		s.stream.receive(version)
		minutes(1)
		s.expect(t, "after the repair")
	})
}

func TestWatch_SilentBeyondTheHistoryOfTheServer(t *testing.T) {
	runChecker(t, func(t *testing.T, s *fixture) {
		minutes(1)
		s.set(410, false)
		minutes(5)
		s.expect(t, "an informer whose version is expired", watchcheck.Silent)
	})
}

func TestWatch_SilentProxy(t *testing.T) {
	runChecker(t, func(t *testing.T, s *fixture) {
		minutes(5)
		s.expect(t, "before the fault")
		s.set(0, true)
		minutes(2)
		s.expect(t, "a proxy that swallows streams for a while")
		minutes(1)
		s.expect(t, "a proxy that swallows all streams", watchcheck.Silent)
		s.set(0, false)
		minutes(2)
		s.expect(t, "a proxy that lets streams pass again")
	})
}

func TestWatch_ServerWithoutBookmarks(t *testing.T) {
	runChecker(t, func(t *testing.T, s *fixture) {
		s.set(0, true)
		minutes(30)
		s.expect(t, "a server whose streams have never delivered anything")
	})
}
