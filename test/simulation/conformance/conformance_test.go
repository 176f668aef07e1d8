package conformance

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/discovery"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/kopf-runtime/kopf-runtime/internal/apiserver"
	"github.com/kopf-runtime/kopf-runtime/internal/controlplane"
)

// TestConformance runs each play on both servers and compares all responses.
func TestConformance(t *testing.T) {
	if testing.Short() {
		t.Skip("the test needs a control plane")
	}
	cp, err := controlplane.Start(controlplane.Options{CRDs: crds()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cp.Stop(); err != nil {
			t.Error(err)
		}
	})
	transport, err := rest.TransportFor(cp.Config)
	if err != nil {
		t.Fatal(err)
	}
	address, _, err := rest.DefaultServerUrlFor(cp.Config)
	if err != nil {
		t.Fatal(err)
	}
	minor := minorVersion(t, cp.Config)
	real := side{"the real server", strings.TrimSuffix(address.String(), "/"), transport}
	t.Run("built-in kinds", func(t *testing.T) { compareKinds(t, cp.Config) })
	requests, differing := 0, atomic.Int64{}
	t.Cleanup(func() {
		t.Logf("%d plays, %d requests, %d different responses", len(plays()), requests, differing.Load())
	})
	for i, p := range plays() {
		requests += len(p.steps)
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			namespace := fmt.Sprintf("play-%d", i)
			made, err := real.send(t, post("/api/v1/namespaces", `{"metadata":{"name":"`+namespace+`"}}`), nil)
			if err != nil || made.Code != 201 {
				t.Fatal(made, err)
			}
			memory := side{"the in-memory server", "http://in-memory", apiserver.New(append(apiserver.FromScheme(clientgoscheme.Scheme), apiserver.FromCRDs(crds()...)...)...)}
			want, got := real.run(t, p, namespace), memory.run(t, p, namespace)
			for i, step := range p.steps {
				w, g := want[i].comparable(), got[i].comparable()
				if len(w.Values) == 1 && w.Values[0] == nil {
					g.Values = w.Values // the server has rejected the request with a plain text
				}
				if code, differs := olderCode(minor, p.name, i); differs && w.Code == code {
					continue
				}
				if minor < 36 { // older servers omit causes without a field
					removeCause(g.Values, "FieldValueInvalid <nil>")
				}
				if p.partial && w.Code == g.Code {
					w.Values, _ = within(w.Values, g.Values).([]any)
				}
				if diff := cmp.Diff(w, g); diff != "" {
					differing.Add(1)
					t.Errorf("step %d, %s %s\n%s\nfrom real (-) to memory (+):\n%s\nin full:\n%v\n%v", i, step.method, step.path, step.body, diff, want[i], got[i])
				}
			}
		})
	}
}

// olderCodes are the status codes of older API servers for steps of plays.
var olderCodes = []struct {
	before int // minor version of the first server with the current code
	play   string
	step   int
	code   int
}{
	{35, "propagation", 10, http.StatusInternalServerError}, // options that are no JSON document
	{35, "JSON patches", 11, http.StatusOK},                 // a replacement of the whole object by a number; older servers ignore it
}

func olderCode(minor int, play string, step int) (code int, differs bool) {
	for _, older := range olderCodes {
		if minor < older.before && older.play == play && older.step == step {
			return older.code, true
		}
	}
	return 0, false
}

// minorVersion returns the minor version of the server.
func minorVersion(t *testing.T, config *rest.Config) int {
	t.Helper()
	discoverer, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	info, err := discoverer.ServerVersion()
	if err != nil {
		t.Fatal(err)
	}
	minor, err := strconv.Atoi(strings.TrimRight(info.Minor, "+"))
	if err != nil {
		t.Fatal(err)
	}
	return minor
}

// removeCause removes a cause from the statuses that plainStatus has returned.
func removeCause(values []any, cause string) {
	for _, value := range values {
		if status, ok := value.(map[string]any); ok {
			if causes, ok := status["causes"].([]string); ok {
				status["causes"] = slices.DeleteFunc(causes, func(one string) bool { return one == cause })
			}
		}
	}
}
