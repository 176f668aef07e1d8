package children_test

import (
	"errors"
	"maps"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/kopf-runtime/kopf-runtime/pkg/children"
)

// kinds is a client that has only a scheme and a REST mapper.
type kinds struct{ client.Client }

func (kinds) Scheme() *runtime.Scheme { return clientgoscheme.Scheme }

func (kinds) RESTMapper() meta.RESTMapper {
	mapper := meta.NewDefaultRESTMapper(nil)
	for gvk := range clientgoscheme.Scheme.AllKnownTypes() {
		scope := meta.RESTScopeNamespace
		switch gvk.Kind {
		case "Namespace", "Node", "ClusterRole", "PersistentVolume":
			scope = meta.RESTScopeRoot
		}
		mapper.Add(gvk, scope)
	}
	return mapper
}

func owner() *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Name: "db", Namespace: "prod", UID: "u1", Labels: map[string]string{"app": "db", "tier": "back"},
	}}
}

func clusterOwner() *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", UID: "u2"}}
}

func pod(change ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{}
	for _, change := range change {
		change(p)
	}
	return p
}

func newUnstructured(apiVersion, kind string, rest ...map[string]any) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": apiVersion, "kind": kind}}
	for _, rest := range rest {
		maps.Copy(u.Object, rest)
	}
	return u
}

func equal(t *testing.T, what string, got, want any) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// HIER-01, HIER-03, HIER-10: Adopt sets the reference, name, namespace and labels of typed and unstructured children,
// and skips nil.
func TestAdopt(t *testing.T) {
	typed, loose := pod(), newUnstructured("v1", "Secret")
	must(t, children.Of(owner(), kinds{}).Adopt(typed, nil, loose, (*corev1.Pod)(nil)))
	yes := true
	for _, child := range []client.Object{typed, loose} {
		equal(t, "the reference", child.GetOwnerReferences(), []metav1.OwnerReference{{
			APIVersion: "v1", Kind: "ConfigMap", Name: "db", UID: "u1", Controller: &yes, BlockOwnerDeletion: &yes,
		}})
		equal(t, "the prefix", child.GetGenerateName(), "db-")
		equal(t, "the name", child.GetName(), "")
		equal(t, "the namespace", child.GetNamespace(), "prod")
		equal(t, "the labels", child.GetLabels(), map[string]string{"app": "db", "tier": "back"})
	}
	before := loose.DeepCopy()
	must(t, children.Of(owner(), kinds{}).Adopt(loose))
	equal(t, "adopted twice", loose, before)
	must(t, children.Of(owner(), kinds{}).Adopt())
}

// HIER-03: both flags can be disabled, and children do not share them.
func TestAdopt_ReferenceFlags(t *testing.T) {
	a, b := pod(), pod()
	must(t, children.Of(owner(), kinds{}, children.Controller(false), children.BlockOwnerDeletion(false)).AppendReference(a, b))
	ref := a.OwnerReferences[0]
	equal(t, "controller flag", *ref.Controller, false)
	equal(t, "blockOwnerDeletion", *ref.BlockOwnerDeletion, false)
	*ref.Controller = true
	equal(t, "flag of the other child", *b.OwnerReferences[0].Controller, false)
}

// HIER-04: a reference with the same UID is not updated.
func TestAppendReference(t *testing.T) {
	existing := metav1.OwnerReference{Kind: "Other", Name: "old", UID: "u1"}
	other := metav1.OwnerReference{Kind: "Other", Name: "other", UID: "u9"}
	p := pod(func(p *corev1.Pod) { p.OwnerReferences = []metav1.OwnerReference{other, existing} })
	must(t, children.Of(owner(), kinds{}).AppendReference(p))
	equal(t, "references after appending twice", p.OwnerReferences, []metav1.OwnerReference{other, existing})
	must(t, children.Of(owner(), kinds{}).RemoveReference(p, nil))
	equal(t, "references after the removal", p.OwnerReferences, []metav1.OwnerReference{other})
	must(t, children.Of(owner(), kinds{}).RemoveReference(p))
	equal(t, "removed twice", p.OwnerReferences, []metav1.OwnerReference{other})

	none := newUnstructured("v1", "Pod")
	must(t, children.Of(owner(), kinds{}).RemoveReference(none))
	equal(t, "child after the removal", none, newUnstructured("v1", "Pod"))
}

// HIER-05: missing labels are set, and existing labels are kept unless forced. By default, the owner's labels are used.
func TestLabel(t *testing.T) {
	for name, c := range map[string]struct {
		opts []children.Option
		want map[string]string
	}{
		"labels of the owner": {nil, map[string]string{"app": "mine", "tier": "back", "x": "y"}},
		"forced":              {[]children.Option{children.Forced()}, map[string]string{"app": "db", "tier": "back", "x": "y"}},
		"given labels":        {[]children.Option{children.Labels(map[string]string{"a": "b"})}, map[string]string{"app": "mine", "x": "y", "a": "b"}},
		"HIER-11 nil labels":  {[]children.Option{children.Labels(nil)}, map[string]string{"app": "mine", "x": "y"}},
	} {
		labels := map[string]string{"app": "mine", "x": "y"}
		p := pod(func(p *corev1.Pod) { p.Labels = labels })
		loose := newUnstructured("v1", "Pod", map[string]any{"metadata": map[string]any{"labels": map[string]any{"app": "mine", "x": "y"}}})
		must(t, children.Of(owner(), kinds{}, c.opts...).Label(p, loose))
		equal(t, name, p.Labels, c.want)
		equal(t, name+", untyped", loose.GetLabels(), c.want)
		equal(t, name+", argument", labels, map[string]string{"app": "mine", "x": "y"})
	}
	bare, bald := pod(), owner()
	bald.Labels = nil
	must(t, children.Of(bald, kinds{}).Label(bare))
	if bare.Labels != nil {
		t.Error("labels = empty map, want nil")
	}
}

// HIER-06: existing structures are labeled, and missing structures are skipped. Pod templates are known.
func TestLabel_NestedTemplates(t *testing.T) {
	labels := func(meta metav1.ObjectMeta) map[string]string { return meta.Labels }
	want := map[string]string{"app": "db", "tier": "back"}
	cron := &batchv1.CronJob{}
	stateful := &appsv1.StatefulSet{}
	template := &corev1.PodTemplate{}
	bare := &corev1.ReplicationController{} // a controller without a template
	full := &corev1.ReplicationController{Spec: corev1.ReplicationControllerSpec{Template: &corev1.PodTemplateSpec{}}}
	must(t, children.Of(owner(), kinds{}).Label(cron, stateful, template, bare, full))
	equal(t, "labels of the Job", labels(cron.Spec.JobTemplate.ObjectMeta), want)
	equal(t, "labels of the job's pods", labels(cron.Spec.JobTemplate.Spec.Template.ObjectMeta), want)
	equal(t, "labels of the StatefulSet's pods", labels(stateful.Spec.Template.ObjectMeta), want)
	equal(t, "labels of the template", labels(template.Template.ObjectMeta), want)
	equal(t, "missing template stays nil", bare.Spec.Template == nil, true)
	equal(t, "labels of an existing template", labels(full.Spec.Template.ObjectMeta), want)

	plain := &appsv1.StatefulSet{}
	must(t, children.Of(owner(), kinds{}, children.PlainTemplates()).Label(plain))
	equal(t, "labels of an unknown template", labels(plain.Spec.Template.ObjectMeta), map[string]string(nil))
	must(t, children.Of(owner(), kinds{}, children.PlainTemplates(), children.Nested("spec.template")).Label(plain))
	equal(t, "labels of a named template", labels(plain.Spec.Template.ObjectMeta), want)

	loose := newUnstructured("apps/v1", "Deployment", map[string]any{"spec": map[string]any{
		"template": map[string]any{"metadata": nil},
		"extra":    map[string]any{"metadata": map[string]any{"labels": map[string]any{"app": "mine"}}},
		"words":    "none", "list": []any{}, "odd": map[string]any{"metadata": "none"},
		"odder": map[string]any{"metadata": map[string]any{"labels": map[string]any{"a": int64(1)}}},
	}})
	odd := loose.DeepCopy()
	must(t, children.Of(owner(), kinds{}, children.Nested("spec.extra", "spec.words", "spec.list", "spec.odd", "spec.odder", "no.such")).Label(loose))
	get := func(u *unstructured.Unstructured, path ...string) any {
		value, _, _ := unstructured.NestedFieldNoCopy(u.Object, path...)
		return value
	}
	equal(t, "labels of the template", get(loose, "spec", "template", "metadata", "labels"), any(map[string]any{"app": "db", "tier": "back"}))
	equal(t, "labels of a named template", get(loose, "spec", "extra", "metadata", "labels"), any(map[string]any{"app": "mine", "tier": "back"}))
	for _, name := range []string{"words", "list", "odd", "odder"} {
		equal(t, name, get(loose, "spec", name), get(odd, "spec", name))
	}
	equal(t, "missing structure", get(loose, "no"), nil)
	must(t, children.Of(owner(), kinds{}, children.Nested("spec.nodeName", "spec.no", "metadata")).Label(pod()))
}

// HIER-07, HIER-08: a missing name is set. With Strict it is the full name, otherwise a prefix.
func TestHarmonizeNaming(t *testing.T) {
	named := func(name, generate string) *corev1.Pod {
		return pod(func(p *corev1.Pod) { p.Name, p.GenerateName = name, generate })
	}
	forced, strict, other := children.Forced(), children.Strict(), children.Named("other")
	for what, c := range map[string]struct {
		child          *corev1.Pod
		opts           []children.Option
		name, generate string
	}{
		"no options":              {named("", ""), nil, "", "db-"},
		"strict":                  {named("", ""), []children.Option{strict}, "db", ""},
		"a given name":            {named("", ""), []children.Option{other}, "", "other-"},
		"a given name and strict": {named("", ""), []children.Option{other, strict}, "other", ""},
		"an existing name":        {named("x", ""), []children.Option{strict}, "x", ""},
		"an existing prefix":      {named("", "x-"), []children.Option{strict}, "", "x-"},
		"forced":                  {named("x", ""), []children.Option{forced}, "", "db-"},
		"forced and strict":       {named("", "x-"), []children.Option{forced, strict}, "db", ""},
	} {
		must(t, children.Of(owner(), kinds{}, c.opts...).HarmonizeNaming(c.child))
		equal(t, what, [2]string{c.child.Name, c.child.GenerateName}, [2]string{c.name, c.generate})
	}
	nameless := owner()
	nameless.Name = ""
	if err := children.Of(nameless, kinds{}).HarmonizeNaming(pod()); err == nil || !strings.Contains(err.Error(), "use Named") {
		t.Errorf("HIER-08: error without a name = %v, want advice about Named", err)
	}
}

// HIER-09: a missing namespace is set. Unlike in kopf, cluster-scoped kinds get no namespace.
func TestAdjustNamespace(t *testing.T) {
	in := func(namespace string) *corev1.Pod { return pod(func(p *corev1.Pod) { p.Namespace = namespace }) }
	for what, c := range map[string]struct {
		owner client.Object
		child client.Object
		opts  []children.Option
		want  string
	}{
		"no options":                 {owner(), in(""), nil, "prod"},
		"an existing namespace":      {owner(), in("x"), nil, "x"},
		"forced":                     {owner(), in("x"), []children.Option{children.Forced()}, "prod"},
		"a given namespace":          {owner(), in(""), []children.Option{children.InNamespace("y")}, "y"},
		"a cluster-scoped kind":      {owner(), &corev1.Node{}, nil, ""},
		"a cluster-scoped owner":     {clusterOwner(), in(""), nil, ""},
		"a forced namespace":         {clusterOwner(), in("x"), []children.Option{children.Forced()}, "x"},
		"HIER-11 an empty namespace": {owner(), in(""), []children.Option{children.InNamespace("")}, ""},
		"an unknown kind":            {owner(), newUnstructured("example.com/v1", "Thing"), nil, "prod"},
	} {
		must(t, children.Of(c.owner, kinds{}, c.opts...).AdjustNamespace(c.child))
		equal(t, what, c.child.GetNamespace(), c.want)
	}
}

// HIER-12, different from kopf: an owner in another scope or namespace is an error, and the child does not change.
func TestAdopt_Errors(t *testing.T) {
	far := pod(func(p *corev1.Pod) { p.Namespace = "test" })
	yes := true
	taken := pod(func(p *corev1.Pod) {
		p.OwnerReferences = []metav1.OwnerReference{{Kind: "Job", Name: "j", UID: "u7", Controller: &yes}}
	})
	noUID, noKind, self := owner(), newUnstructured("", ""), owner()
	noUID.UID = ""
	for want, c := range map[string]struct {
		owner *children.Owner
		child client.Object
	}{
		`ClusterRole ? is cluster-scoped and cannot belong to "db" in namespace prod`:               {children.Of(owner(), kinds{}), &rbacv1.ClusterRole{}},
		`is in namespace "test" and cannot belong to "db" in namespace prod: remove`:                {children.Of(owner(), kinds{}), far},
		`in namespace "y" and cannot belong`:                                                        {children.Of(owner(), kinds{}, children.InNamespace("y")), pod()},
		`Pod ? needs a namespace, but the owner "n1" is cluster-scoped: set one or use InNamespace`: {children.Of(clusterOwner(), kinds{}), pod()},
		`ConfigMap prod/db cannot own itself`:                                                       {children.Of(owner(), kinds{}), self},
		`already owned by another Job controller j`:                                                 {children.Of(owner(), kinds{}), taken},
		`has no name or no uid: use the object as read from the API server`:                         {children.Of(noUID, kinds{}), pod()},
		`object "" of type *children_test.unregistered has no kind: add its type to the sc`:         {children.Of(owner(), kinds{}), &unregistered{}},
		`has no kind: add its type to the scheme of the client, or set apiVersion and kind`:         {children.Of(owner(), kinds{}), noKind},
		`owner: object "" of type *children_test.unregistered has no kind`:                          {children.Of(&unregistered{}, kinds{}), pod()},
		`owner is nil`:        {children.Of((*corev1.Pod)(nil), kinds{}), pod()},
		`client is nil: pass`: {children.Of(owner(), nil), pod()},
		`invalid nested path "spec..x": use field names`: {children.Of(owner(), kinds{}, children.Nested("spec..x")), pod()},
	} {
		before, innocent := c.child.DeepCopyObject(), pod()
		for name, do := range map[string]func(...client.Object) error{"Adopt": c.owner.Adopt, "AppendReference": c.owner.AppendReference} {
			err := do(innocent, c.child)
			if err == nil || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), "children: ") {
				t.Errorf("%s: got %v, want %q", name, err, want)
			}
			equal(t, "child after the error", c.child, before.(client.Object))
			equal(t, "other child after the error", innocent, pod())
		}
	}
	var owned *controllerutil.AlreadyOwnedError
	if err := children.Of(owner(), kinds{}).Adopt(taken); !errors.As(err, &owned) || owned.Owner.Name != "j" {
		t.Errorf("errors.As did not find the other owner: %v", err)
	}
	must(t, children.Of(owner(), kinds{}, children.Controller(false)).Adopt(taken))
	equal(t, "number of references", len(taken.OwnerReferences), 2)
	must(t, children.Of(owner(), kinds{}, children.Forced()).Adopt(far))
	equal(t, "forced namespace", far.Namespace, "prod")
	must(t, children.Of(clusterOwner(), kinds{}).Adopt(pod(func(p *corev1.Pod) { p.Namespace = "x" }), &corev1.Namespace{}))
	must(t, children.Of(owner(), kinds{}).Adopt(newUnstructured("example.com/v1", "Thing"))) // the REST mapper does not know the kind
}

// unregistered is a type without a scheme.
type unregistered struct{ corev1.Pod }

func (s *unregistered) DeepCopyObject() runtime.Object { return &unregistered{*s.DeepCopy()} }

func (s *unregistered) GetObjectKind() schema.ObjectKind { return s.Pod.GetObjectKind() }

var dnsLabel = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`)

func TestName(t *testing.T) {
	name := func(owner, role string) string {
		return children.Name(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: owner}}, role)
	}
	long := strings.Repeat("a", 60)
	equal(t, "short name", name("db", "primary"), "db-primary")
	equal(t, "name of the maximum length", name(long, "bb"), long+"-bb")
	seen := map[string]string{}
	for _, c := range [][2]string{
		{long, "bbb"}, {long, "bbbb"}, {"db", "Primary"}, {"db", "pri_mary"}, {"db", "pri.mary"}, {"db.example", "x"},
		{"", ""}, {"", "x"}, {"db", ""}, {"db", "-"}, {"größe", "ö"}, {strings.Repeat("a.", 100), "x"}, {strings.Repeat("-", 90), ""},
		{"db", "primary"}, {strings.Repeat("a", 52) + "--", strings.Repeat("-", 20) + "x"},
	} {
		got := name(c[0], c[1])
		if !dnsLabel.MatchString(got) || len(got) > 63 {
			t.Errorf("name of %q = %q, want a DNS label", c, got)
		}
		if other, twice := seen[got]; twice {
			t.Errorf("names of %q and %q are both %s", c, other, got)
		}
		seen[got] = strings.Join(c[:], ",")
		equal(t, "same name", name(c[0], c[1]), got)
	}
	// Operators find existing children by these names, so the names must never change.
	equal(t, "name of a long owner", name(long, "bbb"), long[:54]+"-fa45dd02")
}
