package python

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/cert"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Both sides admit the same objects, each with its own configuration, and do not disturb each other.
func TestAdmission_SideBySide(t *testing.T) {
	s := *needAll(t)
	s.gvk = guardKind
	for _, version := range versions {
		t.Run(version, func(t *testing.T) { // one after the other, because the configurations are for the whole cluster
			python := strings.ReplaceAll(version, ".", "-")
			w := newWorld(t, &s, always(succeed), handler{ID: "mutate", Admission: "mutate"}, handler{ID: "validate", Admission: "validate"}, handler{ID: "work", Causes: []string{"create"}})
			t.Cleanup(func() { // the configurations of killed operators
				name := metav1.ObjectMeta{Name: python + ".example.com"}
				for _, obj := range []client.Object{
					&admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: name}, &admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: name},
				} {
					must(t, client.IgnoreNotFound(s.Delete(context.WithoutCancel(t.Context()), obj)))
				}
			})
			certificate, key, err := cert.GenerateSelfSignedCertKey("127.0.0.1", []net.IP{net.IPv4(127, 0, 0, 1)}, nil)
			must(t, err)
			w.declared.Certificate = filepath.Join(t.TempDir(), "certificate.pem")
			must(t, os.WriteFile(w.declared.Certificate, append(certificate, key...), 0o600))

			p := w.start(version, python, 0)
			w.await(p, w.areAdmittedBy(python))
			q := w.start(ours, ours, 0)
			w.await(q, w.areAdmittedBy(ours, python))
			w.stop(q)
			w.await(p, w.areAdmittedBy(python))
			q = w.start(ours, ours, 0)
			w.await(q, w.areAdmittedBy(ours, python))
			w.stop(q)
		})
	}
}

// areAdmittedBy returns problems until exactly these operators change and refuse objects.
func (w *world) areAdmittedBy(operators ...string) func() []string {
	return func() (problems []string) {
		obj := w.newThing(w.ns, "one")
		if err := w.Create(w.ctx, obj, client.DryRunAll); err != nil {
			return []string{err.Error()}
		}
		var found []string
		for name := range obj.GetAnnotations() {
			found = append(found, name)
		}
		slices.Sort(found)
		slices.Sort(operators)
		if !slices.Equal(found, operators) {
			problems = append(problems, fmt.Sprintf("changed by %q, want %q", found, operators))
		}
		obj = w.newThing(w.ns, "two")
		obj.Object["spec"] = map[string]any{"size": int64(unlucky)}
		// The API server calls both, and returns the answer of one.
		if err := w.Create(w.ctx, obj, client.DryRunAll); err == nil || !slices.ContainsFunc(operators, func(o string) bool { return strings.Contains(err.Error(), o+" says no") }) {
			problems = append(problems, fmt.Sprintf("the answer to an unlucky object is %v", err))
		}
		return problems
	}
}
