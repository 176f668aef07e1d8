package kopftest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

type cm = *corev1.ConfigMap

// upgradable is an operator in several versions.
type upgradable struct {
	renamed   string // the id of the first handler
	earlier   string // for RenamedFrom
	template  string // of the child
	resumes   bool   // whether the child is also written after each start
	store     string // the prefix of the store
	onDelete  bool
	finalizer string
	field     string // a status field that counts as a change
	annotates string
}

func (u upgradable) options(mgr manager.Manager) []kopf.Option {
	apply := func(ctx context.Context, req *kopf.Request[cm]) error {
		child := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: req.Object.Namespace, Name: "child-of-" + req.Object.Name}}
		exists := mgr.GetAPIReader().Get(ctx, client.ObjectKeyFromObject(child), child) == nil
		if child.Labels = map[string]string{"template": u.template, "size": req.Object.Data["size"]}; exists {
			return mgr.GetClient().Patch(ctx, child, client.RawPatch("application/merge-patch+json",
				fmt.Appendf(nil, `{"metadata":{"labels":{"template":%q,"size":%q}}}`, u.template, req.Object.Data["size"])))
		}
		return mgr.GetClient().Create(ctx, child)
	}
	id, reasons := "first", []kopf.Reason{kopf.ReasonCreate, kopf.ReasonUpdate}
	if u.renamed != "" {
		id = u.renamed
	}
	if u.resumes {
		reasons = append(reasons, kopf.ReasonResume)
	}
	var first []kopf.HandlerOption
	if u.earlier != "" {
		first = append(first, kopf.RenamedFrom(u.earlier))
	}
	attempts := 0
	resource := kopf.For(&corev1.ConfigMap{}).
		On(id, reasons, apply, first...).
		OnCreateOrUpdate("second", func(_ context.Context, req *kopf.Request[cm]) error {
			if u.annotates != "" {
				metav1.SetMetaDataAnnotation(&req.Object.ObjectMeta, u.annotates, "yes")
			}
			if attempts++; attempts%2 == 1 { // so that there is a checkpoint between the two handlers
				return progress.Temporary(errors.New("not yet"), time.Second)
			}
			return nil
		})
	if u.onDelete {
		resource.OnDelete("drop", func(context.Context, *kopf.Request[cm]) error { return nil })
	}
	if u.field != "" {
		resource.OnField("field", u.field, func(context.Context, *kopf.Request[cm]) error { return nil })
	}
	options := []kopf.Option{resource}
	if u.store != "" {
		options = append(options, kopf.WithProgress(progress.Annotations(u.store)), kopf.WithBaseline(progress.AnnotationBaseline(u.store)))
	}
	if u.finalizer != "" {
		options = append(options, kopf.WithFinalizer(u.finalizer))
	}
	return options
}

// versions returns the versions for an upgrade test.
func versions(old, next upgradable, allow ...string) func() Versions {
	setup := func(u upgradable) func(manager.Manager) error {
		return func(mgr manager.Manager) error { return kopf.SetupWithManager(mgr, u.options(mgr)...) }
	}
	return func() Versions {
		return Versions{
			Scenario: Scenario{
				Given: Given{Objects: []client.Object{&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "one", Namespace: "default"}, Data: map[string]string{"size": "1"}}}},
				Setup: setup(old),
				Steps: []func(testing.TB, *Cluster){func(t testing.TB, c *Cluster) {
					obj := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "one", Namespace: "default"}}
					if err := c.Client.Patch(t.Context(), obj, client.RawPatch("application/merge-patch+json", []byte(`{"data":{"size":"2"}}`))); err != nil {
						t.Fatal(err)
					}
				}},
			},
			NewSetup: setup(next), Allow: allow,
		}
	}
}

func TestUpgrade_BadInput(t *testing.T) {
	good := versions(upgradable{}, upgradable{})
	for want, change := range map[string]func(*Versions){
		"Versions.New is missing":                     func(v *Versions) { v.NewSetup = nil },
		"Versions.New and Versions.NewSetup are both": func(v *Versions) { v.New = func() []kopf.Option { return nil } },
		"Versions.Operator is missing":                func(v *Versions) { v.Setup = nil },
		"the pattern \"[\" is malformed":              func(v *Versions) { v.Allow = []string{"["} },
		"the old version calls no handler":            func(v *Versions) { v.Given.Objects, v.Steps = nil, nil },
	} {
		found := upgradeFindings(t, func() Versions { v := good(); change(&v); return v })
		if len(found) != 1 || !strings.Contains(found[0], want) {
			t.Errorf("findings = %q, want only %q", found, want)
		}
	}
}

func TestUpgrade(t *testing.T) {
	base := upgradable{template: "a"}
	with := func(change func(*upgradable)) upgradable {
		next := base
		change(&next)
		return next
	}
	tests := map[string]struct {
		old, next upgradable
		allow     []string
		want      []string // a part of each finding
	}{
		"the same version":        {old: base, next: base},
		"with a finalizer":        {old: with(func(u *upgradable) { u.onDelete = true }), next: with(func(u *upgradable) { u.onDelete = true })},
		"renamed":                 {base, with(func(u *upgradable) { u.renamed, u.earlier = "new-first", "first" }), nil, nil},
		"renamed without earlier": {base, with(func(u *upgradable) { u.renamed = "new-first" }), nil, []string{`add RenamedFrom("first")`}},
		"a changed template of a child": {
			with(func(u *upgradable) { u.resumes = true }), with(func(u *upgradable) { u.resumes, u.template = true, "b" }), nil,
			[]string{"sends patch secrets/child-of-one although nobody has edited the object"},
		},
		"an annotation left behind": {
			with(func(u *upgradable) { u.annotates = "example.com/old" }), base, nil, []string{"the annotation example.com/old stays on ConfigMap default/one"},
		},
		"an unreadable format": {
			base, with(func(u *upgradable) { u.store = "new.example.com" }), nil,
			[]string{"the new version calls first (create) of default/one although nobody has edited the object"},
		},
		"a handler that is called again": {
			base, with(func(u *upgradable) { u.field = "metadata.uid" }), nil,
			[]string{"the new version calls field/metadata.uid (update) of default/one although nobody has edited the object"},
		},
		"a finalizer that is never removed": {
			with(func(u *upgradable) { u.onDelete, u.finalizer = true, "example.com/old" }), with(func(u *upgradable) { u.onDelete, u.finalizer = true, "example.com/new" }), nil,
			[]string{"remains after its deletion"},
		},
		"an allowed finalizer": {base, with(func(u *upgradable) { u.onDelete = true }), []string{"patch configmaps/*"}, nil},
		"nothing to allow":     {base, base, []string{"patch databases/*"}, []string{`nothing matches "patch databases/*"`}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			found := upgradeFindings(t, versions(test.old, test.next, test.allow...))
			for _, want := range test.want {
				if !strings.Contains(strings.Join(found, "\n"), want) {
					t.Errorf("findings = %q, want one with %q", found, want)
				}
			}
			if testing.Verbose() {
				t.Logf("%q", found)
			}
			if len(test.want) == 0 && len(found) > 0 {
				t.Errorf("findings = %q, want none", found)
			}
		})
	}
}
