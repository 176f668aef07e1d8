package children_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/kopf-runtime/kopf-runtime/pkg/children"
)

// A setCase is one owner with its children on a real API server.
type setCase struct {
	*testing.T
	owner *corev1.ConfigMap
}

func (s setCase) set(name string, opts ...children.Option) *children.Set {
	return s.setWith(k8s, name, opts...)
}

func (s setCase) setWith(c client.Client, name string, opts ...children.Option) *children.Set {
	owner := children.Of(s.owner, c, append([]children.Option{children.FieldOwner("db operator")}, opts...)...)
	return owner.Set(name, &corev1.ConfigMap{}, &corev1.Secret{}, &appsv1.Deployment{})
}

type applyFunc func(context.Context, ...client.Object) (children.SetResult, error)

// apply applies children, and compares the states of all children, such as "a Ready" or "b Deleted". An empty wantErr means no error.
func (s setCase) apply(apply applyFunc, objects []client.Object, wantErr string, want ...string) children.SetResult {
	s.Helper()
	result, err := apply(s.Context(), objects...)
	switch {
	case wantErr == "":
		must(s.T, err)
	case err == nil || !strings.Contains(err.Error(), wantErr):
		s.Errorf("error = %v, want %q", err, wantErr)
	}
	var states []string
	for _, c := range slices.Concat(result.Children, result.Pruned) {
		states = append(states, c.Name[strings.LastIndex(c.Name, "/")+1:]+" "+string(c.State))
	}
	equal(s.T, "states", states, want)
	return result
}

// configs returns new ConfigMaps.
func configs(names ...string) (out []client.Object) {
	for _, name := range names {
		out = append(out, &corev1.ConfigMap{ObjectMeta: object(name), Data: map[string]string{"key": "value"}})
	}
	return out
}

// expect compares the names of the ConfigMaps in the namespace, without the owner.
func (s setCase) expect(want ...string) {
	s.Helper()
	list := &corev1.ConfigMapList{}
	must(s.T, k8s.List(s.Context(), list, client.InNamespace(s.owner.Namespace)))
	var names []string
	for _, item := range list.Items {
		if item.UID != s.owner.UID {
			names = append(names, item.Name)
		}
	}
	equal(s.T, "ConfigMaps", names, want)
}

func (s setCase) get(name string) *corev1.ConfigMap {
	s.Helper()
	obj := &corev1.ConfigMap{}
	must(s.T, k8s.Get(s.Context(), client.ObjectKey{Namespace: s.owner.Namespace, Name: name}, obj))
	return obj
}

// edit changes a ConfigMap as another client.
func (s setCase) edit(name string, change func(*corev1.ConfigMap)) {
	s.Helper()
	obj := s.get(name)
	change(obj)
	must(s.T, k8s.Update(s.Context(), obj, client.FieldOwner("another-client")))
}

func (s setCase) create(obj *corev1.ConfigMap) *corev1.ConfigMap {
	s.Helper()
	obj.Namespace = s.owner.Namespace
	must(s.T, k8s.Create(s.Context(), obj))
	return obj
}

func (s setCase) ownerIn(name string) setCase {
	s.Helper()
	return setCase{s.T, s.create(&corev1.ConfigMap{ObjectMeta: object(name)})}
}

// staleList returns a client whose lists have the present state, even after later changes.
func (s setCase) staleList() client.Client {
	s.Helper()
	stale := &corev1.ConfigMapList{}
	must(s.T, k8s.List(s.Context(), stale, client.InNamespace(s.owner.Namespace), client.HasLabels{"kopf-runtime.dev/set"}))
	return interceptor.NewClient(withWatch(s.T), interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			if configMaps, ok := list.(*corev1.ConfigMapList); ok {
				stale.DeepCopyInto(configMaps)
				return nil
			}
			return c.List(ctx, list, opts...)
		},
	})
}

func newDeployment(name string) *appsv1.Deployment {
	d := newChildren()[0].(*appsv1.Deployment)
	d.Name = name
	return d
}

// setDeploymentReady changes the status as the deployment controller does.
func (s setCase) setDeploymentReady(name string, ready bool) {
	s.Helper()
	d := &appsv1.Deployment{}
	must(s.T, k8s.Get(s.Context(), client.ObjectKey{Namespace: s.owner.Namespace, Name: name}, d))
	d.Status = appsv1.DeploymentStatus{ObservedGeneration: d.Generation, Replicas: 1, UpdatedReplicas: 1, Conditions: []appsv1.DeploymentCondition{
		{Type: "Available", Status: "False"}, {Type: "Progressing", Status: "True", Reason: "ReplicaSetUpdated"},
	}}
	if ready {
		d.Status.ReadyReplicas, d.Status.AvailableReplicas = 1, 1
		d.Status.Conditions[0].Status, d.Status.Conditions[1].Reason = "True", "NewReplicaSetAvailable"
	}
	must(s.T, k8s.Status().Update(s.Context(), d))
}

func TestSet_Apply(t *testing.T) {
	for name, test := range map[string]func(s setCase){
		"sets labels and the owner reference": func(s setCase) {
			s.apply(s.set("one").Apply, configs("a"), "", "a Ready")
			child := s.get("a")
			equal(s.T, "labels", child.Labels, map[string]string{
				"app": "db", "kopf-runtime.dev/set": "one", "kopf-runtime.dev/set-owner": string(s.owner.UID),
			})
			equal(s.T, "owner", child.OwnerReferences[0].UID, s.owner.UID)
		},
		"writes nothing for unchanged children": func(s setCase) {
			s.apply(s.set("one").Apply, configs("a", "b"), "", "a Ready", "b Ready")
			equal(s.T, "writes", countWrites(func() { s.apply(s.set("one").Apply, configs("a", "b"), "", "a Ready", "b Ready") }), 0)
		},
		"skips nil": func(s setCase) {
			s.apply(s.set("one").Apply, append(configs("a"), nil, (*corev1.Secret)(nil)), "", "a Ready")
		},
		"deletes a child that left the list": func(s setCase) {
			s.apply(s.set("one").Apply, configs("a", "b", "c"), "", "a Ready", "b Ready", "c Ready")
			result := s.apply(s.set("one").Apply, configs("a", "c"), "", "a Ready", "c Ready", "b Deleted")
			equal(s.T, "operation", string(result.Pruned[0].Operation), "deleted")
			equal(s.T, "ready", result.Ready(), true)
			s.expect("a", "c")
			s.apply(s.set("one").Apply, configs("a", "c"), "", "a Ready", "c Ready")
		},
		"deletes all children for an empty list": func(s setCase) {
			s.apply(s.set("one").Apply, configs("a", "b"), "", "a Ready", "b Ready")
			s.apply(s.set("one").Apply, nil, "", "b Deleted", "a Deleted")
			s.expect()
		},
		"deletes in the reverse order": func(s setCase) {
			s.apply(s.set("one").ApplyInOrder, configs("store", "queue", "app"), "", "store Ready", "queue Ready", "app Ready")
			s.apply(s.set("one").ApplyInOrder, configs("queue"), "", "queue Ready", "app Deleted", "store Deleted")
			s.apply(s.set("one").ApplyInOrder, append(configs("queue"), &corev1.Secret{ObjectMeta: object("key")}, configs("app")[0]), "", "queue Ready", "key Ready", "app Ready")
			equal(s.T, "writes", countWrites(func() {
				s.apply(s.set("one").ApplyInOrder, append(configs("queue"), &corev1.Secret{ObjectMeta: object("key")}, configs("app")[0]), "", "queue Ready", "key Ready", "app Ready")
			}), 0)
			s.apply(s.set("one").ApplyInOrder, nil, "", "app Deleted", "key Deleted", "queue Deleted")
			s.expect()
		},
		"removes the positions of children without an order": func(s setCase) {
			s.apply(s.set("one").ApplyInOrder, configs("a", "b"), "", "a Ready", "b Ready")
			equal(s.T, "position", s.get("b").Annotations["kopf-runtime.dev/set-position"], "1")
			s.apply(s.set("one").Apply, configs("a", "b"), "", "a Ready", "b Ready")
			equal(s.T, "position", s.get("b").Annotations["kopf-runtime.dev/set-position"], "")
		},
		"deletes after a restart": func(s setCase) {
			s.apply(s.set("one").Apply, configs("a", "b"), "", "a Ready", "b Ready")
			restarted, err := client.New(config, client.Options{}) // without the memory of earlier applies
			must(s.T, err)
			s.apply(s.setWith(restarted, "one").Apply, configs("b"), "", "b Ready", "a Deleted")
			s.expect("b")
		},
		"creates a child again that another client deleted": func(s setCase) {
			s.apply(s.set("one").Apply, configs("a"), "", "a Ready")
			must(s.T, k8s.Delete(s.Context(), s.get("a")))
			result := s.apply(s.set("one").Apply, configs("a"), "", "a Ready")
			equal(s.T, "operation", string(result.Children[0].Operation), "created")
		},
		"restores the labels of the set": func(s setCase) {
			s.apply(s.set("one").Apply, configs("a"), "", "a Ready")
			s.edit("a", func(obj *corev1.ConfigMap) { obj.Labels["kopf-runtime.dev/set"] = "changed" })
			s.apply(s.set("one", children.TakeOver()).Apply, configs("a"), "", "a Ready")
			equal(s.T, "label", s.get("a").Labels["kopf-runtime.dev/set"], "one")
		},
		"replaces a child by one of another kind": func(s setCase) {
			s.apply(s.set("one").Apply, configs("a"), "", "a Ready")
			s.apply(s.set("one").Apply, []client.Object{&corev1.Secret{ObjectMeta: object("a")}}, "", "a Ready", "a Deleted")
			s.expect()
		},
		"deletes unstructured children and children known by metadata": func(s setCase) {
			configMap := newUnstructured("v1", "ConfigMap")
			metadata := &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"}}
			set := operator(s.owner).Set("one", configMap, metadata)
			s.apply(set.Apply, append(configs("a"), &corev1.Secret{ObjectMeta: object("b")}), "", "a Ready", "b Ready")
			s.apply(set.Apply, nil, "", "b Deleted", "a Deleted")
			s.expect()
		},
		"ignores a kind that is not served": func(s setCase) {
			set := operator(s.owner).Set("one", &corev1.ConfigMap{}, newUnstructured("example.com/v1", "Thing"))
			s.apply(set.Apply, configs("a"), "", "a Ready")
			s.apply(set.Apply, nil, "", "a Deleted")
		},
		"does not touch a foreign object of the same name": func(s setCase) {
			s.create(&corev1.ConfigMap{ObjectMeta: object("a"), Data: map[string]string{"key": "foreign"}})
			s.apply(s.set("one").Apply, configs("b", "c"), "", "b Ready", "c Ready")
			s.apply(s.set("one").Apply, configs("a", "b"), "the object exists and does not belong", "a Failed", "b Ready")
			equal(s.T, "data", s.get("a").Data["key"], "foreign")
			s.expect("a", "b", "c") // nothing is deleted before all children are applied
		},
		"does not touch a child of another controller": func(s setCase) {
			other := s.ownerIn("other")
			other.apply(other.set("one").Apply, configs("a"), "", "a Ready")
			s.apply(s.set("one").Apply, configs("a"), "already owned by another ConfigMap controller other", "a Failed")
			equal(s.T, "owners", len(s.get("a").OwnerReferences), 1)
		},
		"reports a child that is being deleted": func(s setCase) {
			s.apply(s.set("one").Apply, configs("a"), "", "a Ready")
			s.edit("a", func(obj *corev1.ConfigMap) { obj.Finalizers = []string{"example.com/wait"} })
			must(s.T, k8s.Delete(s.Context(), s.get("a")))
			result := s.apply(s.set("one").Apply, configs("a"), "the object is being deleted: retry after its deletion", "a Deleting")
			equal(s.T, "ready", result.Ready(), false)
		},
		"waits for the finalizers of a deleted child": func(s setCase) {
			s.apply(s.set("one").Apply, configs("a"), "", "a Ready")
			s.edit("a", func(obj *corev1.ConfigMap) { obj.Finalizers = []string{"example.com/wait"} })
			equal(s.T, "ready", s.apply(s.set("one").Apply, nil, "", "a Deleting").Ready(), false)
			equal(s.T, "writes", countWrites(func() {
				result := s.apply(s.set("one").Apply, nil, "", "a Deleting")
				equal(s.T, "message", result.Pruned[0].Message, "waiting for the finalizers example.com/wait")
			}), 0)
			s.edit("a", func(obj *corev1.ConfigMap) { obj.Finalizers = nil })
			s.apply(s.set("one").Apply, nil, "")
		},
		"keeps the children of another set of the owner": func(s setCase) {
			s.apply(s.set("one").Apply, configs("a"), "", "a Ready")
			s.apply(s.set("two").Apply, configs("b"), "", "b Ready")
			s.apply(s.set("one").Apply, nil, "", "a Deleted")
			s.expect("b")
		},
		"keeps the children of another owner with a set of the same name": func(s setCase) {
			other := s.ownerIn("other")
			other.apply(other.set("one").Apply, configs("a"), "", "a Ready")
			s.apply(s.set("one").Apply, configs("b"), "", "b Ready")
			s.apply(s.set("one").Apply, nil, "", "b Deleted")
			s.expect("a", "other")
		},
		"keeps children without a set": func(s setCase) {
			_, err := operator(s.owner).Apply(s.Context(), configs("a")...)
			must(s.T, err)
			s.apply(s.set("one").Apply, nil, "")
			s.expect("a")
			s.apply(s.set("one").Apply, configs("a"), "", "a Ready") // joins the set
			s.apply(s.set("one").Apply, nil, "", "a Deleted")
			s.expect()
		},
		"refuses a child of another set of the owner": func(s setCase) {
			s.apply(s.set("one").Apply, configs("a"), "", "a Ready")
			s.apply(s.set("two").Apply, configs("a"), `the object belongs to set "one" of ConfigMap "db"`, "a Failed")
			equal(s.T, "label", s.get("a").Labels["kopf-runtime.dev/set"], "one")
		},
		"refuses a child that the set of another owner shares": func(s setCase) {
			other := s.ownerIn("other")
			other.apply(other.set("one", children.Controller(false)).Apply, configs("a"), "", "a Ready")
			s.edit("a", func(obj *corev1.ConfigMap) {
				must(s.T, operator(s.owner, children.Controller(false)).AppendReference(obj))
			})
			s.apply(s.set("one", children.Controller(false)).Apply, configs("a"), `belongs to set "one" of ConfigMap "other"`, "a Failed")
		},
		"is not undone by Apply without the set": func(s setCase) {
			s.apply(s.set("one").Apply, configs("a"), "", "a Ready")
			if _, err := operator(s.owner).Apply(s.Context(), configs("a")...); err == nil || !strings.Contains(err.Error(), `belongs to set "one"`) {
				s.Errorf("error of Apply = %v, want an error about the set", err)
			}
		},
		"moves a child to another set with TakeOver": func(s setCase) {
			s.apply(s.set("one").Apply, configs("a"), "", "a Ready")
			stale := s.staleList()
			uid := s.get("a").UID
			s.apply(s.set("two", children.TakeOver()).Apply, configs("a"), "", "a Ready")
			s.apply(s.setWith(stale, "one").Apply, nil, "", "a Deleted") // the old set releases the child, but does not delete it
			equal(s.T, "uid", s.get("a").UID, uid)
		},
		"deletes nothing if an object has the labels but another owner": func(s setCase) {
			s.apply(s.set("one").Apply, configs("a", "b"), "", "a Ready", "b Ready")
			copied := &corev1.ConfigMap{ObjectMeta: object("copy")}
			copied.Labels = s.get("a").Labels
			s.create(copied)
			result := s.apply(s.set("one").Apply, configs("a"), `copy has the labels of set "one" but no reference to the owner`, "a Ready")
			equal(s.T, "reason", result.Condition("ChildrenReady").Reason, "Failed")
			s.expect("a", "b", "copy")
			s.edit("copy", func(obj *corev1.ConfigMap) { obj.Labels = nil })
			s.apply(s.set("one").Apply, configs("a"), "", "a Ready", "b Deleted")
			s.expect("a", "copy")
		},
		"deletes a child that changed since it was listed": func(s setCase) {
			s.apply(s.set("one").Apply, configs("a"), "", "a Ready")
			stale := s.staleList()
			s.edit("a", func(obj *corev1.ConfigMap) { obj.Data["key"] = "changed" })
			s.apply(s.setWith(stale, "one").Apply, nil, "", "a Deleted")
			s.expect()
		},
		"keeps an object that another client created in place of a listed child": func(s setCase) {
			s.apply(s.set("one").Apply, configs("a"), "", "a Ready")
			stale := s.staleList()
			must(s.T, k8s.Delete(s.Context(), s.get("a")))
			s.create(&corev1.ConfigMap{ObjectMeta: object("a"), Data: map[string]string{"key": "foreign"}})
			s.apply(s.setWith(stale, "one").Apply, nil, "", "a Deleted")
			equal(s.T, "data", s.get("a").Data["key"], "foreign")
		},
		"keeps a listed child that another client released": func(s setCase) {
			s.apply(s.set("one").Apply, configs("a"), "", "a Ready")
			stale := s.staleList()
			s.edit("a", func(obj *corev1.ConfigMap) { obj.OwnerReferences = nil })
			s.apply(s.setWith(stale, "one").Apply, nil, "", "a Deleted")
			s.expect("a")
		},
		"accepts that a listed child is already deleted": func(s setCase) {
			s.apply(s.set("one").Apply, configs("a"), "", "a Ready")
			stale := s.staleList()
			must(s.T, k8s.Delete(s.Context(), s.get("a")))
			s.apply(s.setWith(stale, "one").Apply, nil, "", "a Deleted")
		},
		"deletes nothing if a child is rejected": func(s setCase) {
			s.apply(s.set("one").Apply, configs("a", "b"), "", "a Ready", "b Ready")
			invalid := newDeployment("invalid")
			invalid.Spec.Selector = nil
			s.apply(s.set("one").Apply, []client.Object{invalid, configs("a")[0]}, "spec.selector", "invalid Failed", "a Ready")
			s.expect("a", "b")
		},
		"continues if a deletion fails": func(s setCase) {
			s.apply(s.set("one").Apply, configs("a", "b", "c"), "", "a Ready", "b Ready", "c Ready")
			failing := interceptor.NewClient(withWatch(s.T), interceptor.Funcs{
				Delete: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.DeleteOption) error {
					if obj.GetName() == "b" {
						return errors.New("no answer")
					}
					return c.Delete(ctx, obj, opts...)
				},
			})
			s.apply(s.setWith(failing, "one").Apply, nil, "/b: no answer", "c Deleted", "b Failed", "a Deleted")
			s.expect("b")
		},
		"writes nothing if the children cannot be listed": func(s setCase) {
			blind := interceptor.NewClient(withWatch(s.T), interceptor.Funcs{
				List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error {
					return apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, "", errors.New(
						`User "x" cannot list resource "configmaps" in API group "" in the namespace "y"`))
				},
			})
			equal(s.T, "writes", countWrites(func() {
				result := s.apply(s.setWith(blind, "one").Apply, configs("a"), `listing the children of kind ConfigMap in set "one"`)
				equal(s.T, "status", result.Condition("ChildrenReady").Status, metav1.ConditionFalse)
			}), 0)
		},
		"deletes dependents in the background and children in reverse order of the kinds": func(s setCase) {
			var deleted []string
			recording := interceptor.NewClient(withWatch(s.T), interceptor.Funcs{
				Delete: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.DeleteOption) error {
					options := (&client.DeleteOptions{}).ApplyOptions(opts)
					deleted = append(deleted, obj.GetName()+" "+string(*options.PropagationPolicy))
					return c.Delete(ctx, obj, opts...)
				},
			})
			set := s.setWith(recording, "one")
			s.apply(set.Apply, append(configs("a"), newDeployment("d"), &corev1.Secret{ObjectMeta: object("s")}), "", "a Ready", "d InProgress", "s Ready")
			s.apply(set.Apply, nil, "", "d Deleted", "s Deleted", "a Deleted")
			equal(s.T, "deletions", deleted, []string{"d Background", "s Background", "a Background"})
		},
		"does not place grandchildren in the set of their parent": func(s setCase) {
			s.apply(s.set("one").Apply, configs("a"), "", "a Ready")
			child := setCase{s.T, s.get("a")}
			_, err := operator(child.owner).Apply(s.Context(), configs("aa")...)
			must(s.T, err)
			equal(s.T, "label", s.get("aa").Labels["kopf-runtime.dev/set"], "")
			child.apply(child.set("one").Apply, configs("ab"), "", "ab Ready")
			s.apply(s.set("one").Apply, configs("a"), "", "a Ready")
			s.expect("a", "aa", "ab")
		},
		"reaches all namespaces for an owner without a namespace": func(s setCase) {
			namespace := &corev1.Namespace{}
			must(s.T, k8s.Get(s.Context(), client.ObjectKey{Name: s.owner.Namespace}, namespace))
			other := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "children-"}}
			must(s.T, k8s.Create(s.Context(), other))
			here, there := configs("a")[0], configs("a")[0]
			here.SetNamespace(namespace.Name)
			there.SetNamespace(other.Name)
			owner := operator(namespace, children.Labels(nil))
			s.apply(owner.Set("one", &corev1.ConfigMap{}).Apply, []client.Object{here, there}, "", "a Ready", "a Ready")
			s.apply(owner.Set("one", &corev1.ConfigMap{}).Apply, []client.Object{here}, "", "a Ready", "a Deleted")
			s.expect("a")
		},
		"applies all children at the same time": func(s setCase) {
			s.apply(s.set("one").Apply, append([]client.Object{newDeployment("d")}, configs("a")...), "", "d InProgress", "a Ready")
			s.expect("a")
		},
		"in order, waits until the earlier children are ready": func(s setCase) {
			s.apply(s.set("one").Apply, configs("old"), "", "old Ready")
			list := func() []client.Object { return append([]client.Object{newDeployment("d")}, configs("a", "b")...) }
			s.apply(s.set("one").ApplyInOrder, list(), "", "d InProgress", "a Waiting", "b Waiting")
			s.expect("old")
			s.setDeploymentReady("d", true)
			s.apply(s.set("one").ApplyInOrder, list(), "", "d Ready", "a Ready", "b Ready", "old Deleted")
			s.expect("a", "b")
		},
		"in order, stops at a failing child in the middle": func(s setCase) {
			s.apply(s.set("one").Apply, configs("old"), "", "old Ready")
			invalid := newDeployment("d")
			invalid.Spec.Selector = nil
			s.apply(s.set("one").ApplyInOrder, []client.Object{configs("a")[0], invalid, configs("b")[0]}, "spec.selector", "a Ready", "d Failed", "b Waiting")
			s.expect("a", "old")
			equal(s.T, "writes", countWrites(func() { // only the attempt for the invalid child: a dry run and an apply
				s.apply(s.set("one").ApplyInOrder, []client.Object{configs("a")[0], invalid, configs("b")[0]}, "spec.selector", "a Ready", "d Failed", "b Waiting")
			}), 2)
		},
		"in order, keeps later children when an earlier child is no longer ready": func(s setCase) {
			list := func() []client.Object { return append([]client.Object{newDeployment("d")}, configs("a")...) }
			s.apply(s.set("one").ApplyInOrder, list(), "", "d InProgress", "a Waiting")
			s.setDeploymentReady("d", true)
			s.apply(s.set("one").ApplyInOrder, list(), "", "d Ready", "a Ready")
			s.setDeploymentReady("d", false)
			s.edit("a", func(obj *corev1.ConfigMap) { obj.Data["key"] = "changed" })
			s.apply(s.set("one").ApplyInOrder, list(), "", "d InProgress", "a Waiting")
			equal(s.T, "data", s.get("a").Data["key"], "changed")
			s.setDeploymentReady("d", true)
			s.apply(s.set("one").ApplyInOrder, list(), "", "d Ready", "a Ready")
			equal(s.T, "data", s.get("a").Data["key"], "value")
		},
		"reports a failed Job": func(s setCase) {
			job := &batchv1.Job{ObjectMeta: object("j"), Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{
				Spec: corev1.PodSpec{RestartPolicy: "Never", Containers: []corev1.Container{{Name: "main", Image: "main:1"}}},
			}}}
			set := operator(s.owner).Set("one", &batchv1.Job{})
			s.apply(set.Apply, []client.Object{job.DeepCopy()}, "", "j InProgress")
			live := &batchv1.Job{}
			must(s.T, k8s.Get(s.Context(), client.ObjectKey{Namespace: s.owner.Namespace, Name: "j"}, live))
			now := metav1.Now()
			live.Status = batchv1.JobStatus{StartTime: &now, Conditions: []batchv1.JobCondition{
				{Type: "FailureTarget", Status: "True", Reason: "Stopped", LastTransitionTime: now},
				{Type: "Failed", Status: "True", Reason: "Stopped", Message: "no luck", LastTransitionTime: now},
			}}
			must(s.T, k8s.Status().Update(s.Context(), live))
			result := s.apply(set.Apply, []client.Object{job.DeepCopy()}, "", "j Failed")
			condition := result.Condition("ChildrenReady")
			equal(s.T, "reason", condition.Reason, "Failed")
			if !strings.Contains(condition.Message, "/j: Failed (") {
				s.Errorf("message = %q, want the failed Job", condition.Message)
			}
		},
	} {
		t.Run(name, func(t *testing.T) { test(setCase{t, realOwner(t)}) })
	}
}

func TestSet_Errors(t *testing.T) {
	owner := realOwner(t)
	child := configs("a")[0]
	for _, test := range []struct {
		name string
		set  *children.Set
		with []client.Object
		want string
	}{
		{"without a field owner", children.Of(owner, k8s).Set("one", child), nil, `set "one" requires the option FieldOwner`},
		{"without a name", operator(owner).Set("", child), nil, `the name of set "" is not a valid label value`},
		{"with an invalid name", operator(owner).Set("a b", child), nil, `the name of set "a b" is not a valid label value`},
		{"without kinds", operator(owner).Set("one"), nil, `set "one" has no kinds`},
		{"with a nil kind", operator(owner).Set("one", nil), nil, `set "one" has a nil kind`},
		{"with an unknown kind", operator(owner).Set("one", &unregistered{}), nil, `set "one": object "" of type *children_test.unregistered has no kind`},
		{"without a client", children.Of(owner, nil, children.FieldOwner("x")).Set("one", child), nil, "client is nil"},
		{"child of another kind", operator(owner).Set("one", &corev1.Secret{}), []client.Object{child}, `a is not of a kind of set "one": pass an empty *v1.ConfigMap to Set`},
		{"child without a name", operator(owner).Set("one", child), []client.Object{&corev1.ConfigMap{}}, "has no name: use Name"},
		{"child twice", operator(owner).Set("one", child), configs("a", "a"), "occurs twice"},
	} {
		t.Run(test.name, func(t *testing.T) {
			equal(t, "writes", countWrites(func() {
				result, err := test.set.Apply(t.Context(), test.with...)
				if err == nil || !strings.Contains(err.Error(), test.want) {
					t.Errorf("error = %v, want %q", err, test.want)
				}
				equal(t, "ready", result.Ready(), false)
				equal(t, "status", result.Condition("X").Status, metav1.ConditionFalse)
			}), 0)
		})
	}
}

// The API server removes the namespace of a cluster-scoped child.
func TestSet_ClusterScopedChildWithNamespace(t *testing.T) {
	if testing.Short() {
		t.Skip("needs a control plane")
	}
	owner := &corev1.Node{ObjectMeta: metav1.ObjectMeta{GenerateName: "owner-"}}
	must(t, k8s.Create(t.Context(), owner))
	t.Cleanup(func() { must(t, k8s.Delete(context.WithoutCancel(t.Context()), owner)) })
	set := children.Of(owner, k8s, children.FieldOwner("db operator")).Set("roles", &rbacv1.ClusterRole{})
	for range 3 {
		result, err := set.Apply(t.Context(), &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: owner.Name, Namespace: "default"}})
		must(t, err)
		if len(result.Children) != 1 || len(result.Pruned) > 0 {
			t.Errorf("children = %v, pruned = %v, want one child and none pruned", result.Children, result.Pruned)
		}
	}
	result, err := set.Apply(t.Context())
	must(t, err)
	if len(result.Pruned) != 1 {
		t.Errorf("pruned = %v, want the role", result.Pruned)
	}
}

// An object with another owner is released and not deleted, as by the garbage collector.
func TestSet_PruneWithOtherOwners(t *testing.T) {
	s := setCase{t, realOwner(t)}
	other := s.ownerIn("other").owner
	shared := configs("shared")[0]
	set := s.set("configs", children.Controller(false))
	s.apply(set.Apply, []client.Object{shared}, "", "shared Ready")
	_, err := children.Of(other, k8s, children.FieldOwner("other"), children.Controller(false), children.TakeOver()).Apply(t.Context(), configs("shared")...)
	must(t, err)
	result := s.apply(set.Apply, nil, "", "shared Deleted")
	if got := result.Pruned[0]; got.Operation != "released" || got.Message != "other owners keep the object" {
		t.Errorf("operation = %q, message = %q, want released and %q", got.Operation, got.Message, "other owners keep the object")
	}
	live := &corev1.ConfigMap{}
	must(t, k8s.Get(t.Context(), client.ObjectKeyFromObject(shared), live))
	if refs := live.OwnerReferences; len(refs) != 1 || refs[0].UID != other.UID || live.Labels["kopf-runtime.dev/set"] != "" {
		t.Errorf("references = %v, labels = %v, want only the reference to the other owner", refs, live.Labels)
	}
	s.apply(set.Apply, nil, "") // it is no longer part of the set
}

func TestSetResult_Condition(t *testing.T) {
	child := func(name string, state children.State, message string) children.SetChild {
		return children.SetChild{Name: name, State: state, Message: message}
	}
	many := make([]children.SetChild, 7)
	for i := range many {
		many[i] = child("c", children.InProgress, "")
	}
	for _, test := range []struct {
		name   string
		result children.SetResult
		want   metav1.Condition
	}{
		{"no children", children.SetResult{}, metav1.Condition{Status: "True", Reason: "Ready", Message: "0 of 0 children are ready"}},
		{
			"ready and deleted",
			children.SetResult{Children: []children.SetChild{child("a", children.Ready, "")}, Pruned: []children.SetChild{child("b", children.Deleted, "")}},
			metav1.Condition{Status: "True", Reason: "Ready", Message: "1 of 1 children are ready"},
		},
		{
			"failed before in progress",
			children.SetResult{Children: []children.SetChild{child("a", children.Waiting, ""), child("b", children.InProgress, "1 of 2"), child("c", children.Failed, "broken")}},
			metav1.Condition{Status: "False", Reason: "Failed", Message: "c: Failed (broken); b: InProgress (1 of 2); a: Waiting"},
		},
		{
			"deleting",
			children.SetResult{Pruned: []children.SetChild{child("a", children.Deleting, "")}},
			metav1.Condition{Status: "False", Reason: "Deleting", Message: "a: Deleting"},
		},
		{
			"many",
			children.SetResult{Children: many},
			metav1.Condition{Status: "False", Reason: "InProgress", Message: strings.Repeat("c: InProgress; ", 5) + "and 2 more"},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			test.want.Type = "ChildrenReady"
			equal(t, "condition", test.result.Condition("ChildrenReady"), test.want)
		})
	}
}
