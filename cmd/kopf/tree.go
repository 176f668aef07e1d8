package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/client-go/discovery"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// maxParallel is the maximum number of parallel requests.
const maxParallel = 8

func newTree() *cobra.Command {
	var which selection
	var form output
	var kinds []string
	cmd := &cobra.Command{
		Use:   "tree KIND NAME",
		Short: "Show the owners and the dependents of an object",
		Long: `Show the object, its owners above it, and below it all objects that it owns, directly or through other objects. For each object, show whether
it is ready, its age, and the finalizers that block its deletion.

The command lists only the metadata of all objects, except Events. For an object in a namespace, it lists only the objects in
this namespace. It then reads the status of the objects that it shows, except Secrets and ConfigMaps.
A note names the kinds that you have no permission to list.`,
		Example: `  # All dependents of a database:
  kopf tree databases.example.com orders -n shop
  # Only some kinds; also name the kinds between the object and these kinds:
  kopf tree databases.example.com orders -n shop --kinds statefulsets,pods
  # For scripts:
  kopf tree databases.example.com orders -n shop -o json`,
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case which.all || which.selector != "":
				return errors.New("--all-namespaces and --selector select several objects: name one object")
			case slices.Contains(kinds, ""):
				return errors.New("--kinds has an empty kind: set names as in kubectl, such as deployments,pods")
			}
			if err := form.check(); err != nil {
				return err
			}
			t, err := which.open(args)
			if err != nil {
				return err
			}
			found, err := (&treeReader{target: t}).read(cmd.Context(), args[1], kinds)
			if err != nil {
				return err
			}
			if form == "table" {
				return found.write(cmd.OutOrStdout(), time.Now())
			}
			return form.write(cmd.OutOrStdout(), found, nil)
		},
	}
	which.bind(cmd.Flags())
	form.bind(cmd.Flags())
	cmd.Flags().StringSliceVar(&kinds, "kinds", nil, "list only these kinds, separated by commas (default: all kinds)")
	return cmd
}

// A tree is an object with its owners and dependents.
type tree struct {
	treeNode
	Notes []string `json:"notes,omitempty"` // reasons why the tree may be incomplete
}

// A treeNode is an object of a tree. If an object appears several times, only the first node has its owners or dependents.
type treeNode struct {
	APIVersion string       `json:"apiVersion"`
	Kind       string       `json:"kind"`
	Namespace  string       `json:"namespace,omitempty"`
	Name       string       `json:"name"`
	State      string       `json:"state,omitempty"` // Ready, InProgress, Failed, Deleting, Missing, or Unknown; empty if the object has no status
	Message    string       `json:"message,omitempty"`
	Created    *metav1.Time `json:"created,omitempty"`
	Deleted    *metav1.Time `json:"deleted,omitempty"`
	Finalizers []string     `json:"finalizers,omitempty"`
	Owners     []*treeNode  `json:"owners,omitempty"` // the controller first
	Dependents []*treeNode  `json:"dependents,omitempty"`

	uid      types.UID
	owners   []metav1.OwnerReference
	repeated bool
}

func newTreeNode(gvk schema.GroupVersionKind, obj metav1.Object) *treeNode {
	node := &treeNode{
		Namespace: obj.GetNamespace(), Name: obj.GetName(), Created: new(obj.GetCreationTimestamp()), Deleted: obj.GetDeletionTimestamp(),
		Finalizers: obj.GetFinalizers(), uid: obj.GetUID(), owners: slices.Clone(obj.GetOwnerReferences()),
	}
	node.APIVersion, node.Kind = gvk.ToAPIVersionAndKind()
	slices.SortStableFunc(node.owners, func(a, b metav1.OwnerReference) int { return ownerRank(a) - ownerRank(b) })
	return node
}

// ownerRank returns the rank of an owner: 0 for the controller, and 1 for other owners.
func ownerRank(ref metav1.OwnerReference) int {
	if ref.Controller != nil && *ref.Controller {
		return 0
	}
	return 1
}

// A treeReader reads the objects of a tree.
type treeReader struct {
	*target
	mu    sync.Mutex
	notes map[string][]string // affected kinds or objects by reason
}

func (r *treeReader) note(reason, what string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.notes == nil {
		r.notes = map[string][]string{}
	}
	if !slices.Contains(r.notes[reason], what) {
		r.notes[reason] = append(r.notes[reason], what)
	}
}

// noteError records an error of a request, grouped by reason.
func (r *treeReader) noteError(verb, what string, err error) {
	if apierrors.IsForbidden(err) {
		r.note("no permission to "+verb, what)
		return
	}
	r.note("failed to "+verb, what+" ("+err.Error()+")")
}

func (r *treeReader) read(ctx context.Context, name string, kinds []string) (*tree, error) {
	resources, err := r.resources(kinds)
	if err != nil {
		return nil, err
	}
	obj := &unstructured.Unstructured{}
	obj.SetGroupVersionKind(r.mapping.GroupVersionKind)
	if err := r.c.Get(ctx, client.ObjectKey{Namespace: r.namespace, Name: name}, obj); err != nil {
		return nil, withObject(err, r.namespace, name)
	}
	root := newTreeNode(r.mapping.GroupVersionKind, obj)
	dependents, err := r.list(ctx, resources)
	if err != nil {
		return nil, err
	}
	seen := map[types.UID]bool{}
	all := addDependents(root, dependents, seen)
	all = append(all, r.addOwners(ctx, root, map[types.UID]bool{root.uid: true})...)
	requests := errgroup.Group{}
	requests.SetLimit(maxParallel)
	for _, node := range all {
		requests.Go(func() error { r.readState(ctx, node); return nil })
	}
	_ = requests.Wait() // the functions return no errors
	found := &tree{treeNode: *root}
	for reason, what := range r.notes {
		slices.Sort(what)
		found.Notes = append(found.Notes, reason+": "+strings.Join(what, ", "))
	}
	slices.Sort(found.Notes)
	return found, ctx.Err()
}

// resources returns the given kinds. Without given kinds, it returns all listable kinds except Events. For an object in a
// namespace, it returns only kinds with namespaces.
func (r *treeReader) resources(kinds []string) (all []schema.GroupVersionKind, err error) {
	for _, kind := range kinds {
		mapping, err := findMapping(r.c.RESTMapper(), kind)
		if err != nil {
			return nil, fmt.Errorf("--kinds: %w", err)
		}
		all = append(all, mapping.GroupVersionKind)
	}
	if len(kinds) > 0 {
		return all, nil
	}
	disco, err := discovery.NewDiscoveryClientForConfig(r.config)
	if err != nil {
		return nil, err
	}
	lists, err := disco.ServerPreferredResources()
	if partial, ok := errors.AsType[*discovery.ErrGroupDiscoveryFailed](err); ok {
		for group, err := range partial.Groups {
			r.noteError("discover the kinds of", group.String(), err)
		}
	} else if err != nil {
		return nil, fmt.Errorf("list the kinds of the API server: %w", err)
	}
	for _, list := range lists {
		for _, resource := range list.APIResources {
			if slices.Contains(resource.Verbs, "list") && !strings.Contains(resource.Name, "/") && resource.Kind != "Event" && (resource.Namespaced || r.namespace == "") {
				all = append(all, schema.FromAPIVersionAndKind(list.GroupVersion, resource.Kind))
			}
		}
	}
	return all, nil
}

// list returns all objects with owners, by the UIDs of the owners.
func (r *treeReader) list(ctx context.Context, kinds []schema.GroupVersionKind) (map[types.UID][]*treeNode, error) {
	owned := map[types.UID][]*treeNode{}
	requests, ctx := errgroup.WithContext(ctx)
	requests.SetLimit(maxParallel)
	for _, gvk := range kinds {
		requests.Go(func() error {
			options := &client.ListOptions{Namespace: r.namespace, Limit: pageSize}
			for more := true; more; more = options.Continue != "" {
				page := &metav1.PartialObjectMetadataList{}
				page.SetGroupVersionKind(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
				one, cancel := context.WithTimeout(ctx, requestTimeout)
				err := r.c.List(one, page, options)
				cancel()
				if err != nil {
					if !apierrors.IsNotFound(err) && !apierrors.IsMethodNotSupported(err) {
						r.noteError("list", gvk.GroupKind().String(), err)
					}
					return ctx.Err()
				}
				r.mu.Lock()
				for i := range page.Items {
					node := newTreeNode(gvk, &page.Items[i])
					for _, owner := range page.Items[i].OwnerReferences {
						owned[owner.UID] = append(owned[owner.UID], node)
					}
				}
				r.mu.Unlock()
				options.Continue = page.Continue
			}
			return nil
		})
	}
	return owned, requests.Wait()
}

// addDependents adds the dependents to a node, at any depth, and returns the nodes whose state must be read. An object that the API server serves as
// several kinds, or that has several owners in the tree, is expanded once.
func addDependents(node *treeNode, owned map[types.UID][]*treeNode, seen map[types.UID]bool) []*treeNode {
	seen[node.uid] = true
	all := []*treeNode{node}
	below := map[types.UID]bool{}
	dependents := slices.Clone(owned[node.uid])
	slices.SortFunc(dependents, func(a, b *treeNode) int {
		return cmp.Or(strings.Compare(a.Kind, b.Kind), strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name), strings.Compare(a.APIVersion, b.APIVersion))
	})
	for _, dependent := range dependents {
		if below[dependent.uid] {
			continue
		}
		below[dependent.uid] = true
		child := *dependent
		node.Dependents = append(node.Dependents, &child)
		if child.repeated = seen[child.uid] && len(owned[child.uid]) > 0; child.repeated {
			all = append(all, &child)
			continue
		}
		all = append(all, addDependents(&child, owned, seen)...)
	}
	return all
}

// addOwners adds the owners to a node, at any depth, and returns the owners that it could read.
func (r *treeReader) addOwners(ctx context.Context, node *treeNode, seen map[types.UID]bool) (all []*treeNode) {
	for _, ref := range node.owners {
		owner := &treeNode{APIVersion: ref.APIVersion, Kind: ref.Kind, Name: ref.Name, State: "Unknown", uid: ref.UID}
		node.Owners = append(node.Owners, owner)
		gvk := schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind)
		mapping, err := r.c.RESTMapper().RESTMapping(gvk.GroupKind(), gvk.Version)
		if err != nil {
			r.note("kinds of owners that the API server does not have", gvk.GroupKind().String())
			continue
		}
		if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
			owner.Namespace = node.Namespace
		}
		obj := &metav1.PartialObjectMetadata{}
		obj.SetGroupVersionKind(gvk)
		err = r.c.Get(ctx, client.ObjectKey{Namespace: owner.Namespace, Name: ref.Name}, obj)
		switch {
		case apierrors.IsNotFound(err) || err == nil && obj.UID != ref.UID:
			owner.State, owner.Message = "Missing", "the owner does not exist"
			continue
		case err != nil:
			r.noteError("read", gvk.GroupKind().String(), err)
			continue
		}
		*owner = *newTreeNode(gvk, obj)
		all = append(all, owner)
		if !seen[owner.uid] {
			seen[owner.uid] = true
			all = append(all, r.addOwners(ctx, owner, seen)...)
		}
	}
	return all
}

// readState sets the state of a node. It does not read Secrets and ConfigMaps, because they have no status.
func (r *treeReader) readState(ctx context.Context, node *treeNode) {
	gvk := schema.FromAPIVersionAndKind(node.APIVersion, node.Kind)
	obj := &unstructured.Unstructured{}
	obj.SetGroupVersionKind(gvk)
	if gk := gvk.GroupKind(); gk.Group != corev1.GroupName || gk.Kind != "Secret" && gk.Kind != "ConfigMap" {
		err := r.c.Get(ctx, client.ObjectKey{Namespace: node.Namespace, Name: node.Name}, obj)
		switch {
		case apierrors.IsNotFound(err) || err == nil && obj.GetUID() != node.uid:
			node.State, node.Message = "Missing", "the object was deleted in the meantime"
			return
		case err != nil:
			r.noteError("read", gvk.GroupKind().String(), err)
			node.State = "Unknown"
		default:
			node.State, node.Message = stateOf(obj)
			node.Deleted, node.Finalizers = obj.GetDeletionTimestamp(), obj.GetFinalizers()
		}
	}
	if node.Deleted != nil {
		node.State = "Deleting"
		node.Message = "no finalizer blocks the deletion"
		if len(node.Finalizers) > 0 {
			node.Message = "blocked by finalizers: " + strings.Join(node.Finalizers, ", ")
		}
	}
}

// stateOf returns the state of an object by the rules of kstatus, as package children does. For kinds that kstatus does not
// know, it also uses common types of conditions.
func stateOf(obj *unstructured.Unstructured) (state, message string) {
	if _, found := obj.Object["status"]; !found {
		return "", ""
	}
	result, err := status.Compute(obj)
	if err != nil {
		return "Unknown", err.Error()
	}
	switch result.Status {
	case status.CurrentStatus:
	case status.FailedStatus:
		return "Failed", result.Message
	default:
		return string(result.Status), result.Message
	}
	if status.GetLegacyConditionsFn(obj) != nil {
		return "Ready", ""
	}
	conditions, err := status.GetObjectWithConditions(obj.Object)
	if err != nil {
		return "Unknown", err.Error()
	}
	state = "Ready"
	for _, c := range conditions.Status.Conditions {
		isTrue := c.Status == corev1.ConditionTrue
		switch c.Type {
		case "Failed", "Degraded":
			if isTrue {
				return "Failed", cmp.Or(c.Message, c.Reason)
			}
		case "Available", "Succeeded", "Complete", "Completed", "Established", "Healthy":
			if !isTrue {
				state, message = "InProgress", c.Type+" is "+string(c.Status)+": "+cmp.Or(c.Message, c.Reason)
			}
		}
	}
	return state, message
}

// write prints the tree. Above the object, it prints only the first owner of each object, which is the controller if there is
// one.
func (t *tree) write(w io.Writer, now time.Time) error {
	table := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	_, _ = fmt.Fprintln(table, "OBJECT\tSTATE\tAGE\tMESSAGE") // Flush returns the errors of writes
	above := []*treeNode{&t.treeNode}
	for node := &t.treeNode; len(node.Owners) > 0; node = node.Owners[0] {
		above = append(above, node.Owners[0])
	}
	indent, parent := "", types.UID("")
	for depth, owner := range slices.Backward(above) {
		branch := indent
		if parent != "" {
			branch, indent = indent+"└─ ", indent+"   "
		}
		owner.line(table, branch, parent, now)
		if parent = owner.uid; depth == 0 {
			owner.lines(table, indent, now)
		}
	}
	if err := table.Flush(); err != nil {
		return err
	}
	for _, note := range t.Notes {
		if _, err := fmt.Fprintln(w, "note:", oneLine(note)); err != nil {
			return err
		}
	}
	return nil
}

// lines prints the dependents of a node.
func (n *treeNode) lines(w io.Writer, indent string, now time.Time) {
	for i, dependent := range n.Dependents {
		branch, below := "├─ ", "│  "
		if i == len(n.Dependents)-1 {
			branch, below = "└─ ", "   "
		}
		dependent.line(w, indent+branch, n.uid, now)
		dependent.lines(w, indent+below, now)
	}
}

func (n *treeNode) line(w io.Writer, indent string, parent types.UID, now time.Time) {
	age := "-"
	if !n.Created.IsZero() {
		age = duration.HumanDuration(now.Sub(n.Created.Time))
	}
	message := []string{}
	if n.Message != "" {
		message = append(message, n.Message)
	}
	for _, ref := range n.owners {
		if ref.UID != parent {
			message = append(message, "also owned by "+ref.Kind+"/"+ref.Name)
		}
	}
	if n.repeated {
		message = append(message, "its dependents are shown above")
	}
	_, _ = fmt.Fprintf(w, "%s%s\t%s\t%s\t%s\n", indent, oneLine(n.Kind+"/"+n.Name), cmp.Or(n.State, "-"), age, orNone(message))
}
