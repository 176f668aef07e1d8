package watchcheck

import (
	"context"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// A probeKind says what a probe asks for.
type probeKind int

const (
	// listProbe lists one object: all that can be asked before the informer has a version.
	listProbe probeKind = iota
	// changesProbe asks for the changes after the version of the informer: the answer is empty unless the informer misses some.
	changesProbe
	// streamProbe asks for the objects of an unused name, and for the bookmark that ends such a listing: it always comes, unless
	// streams are swallowed on their way.
	streamProbe
)

const (
	changesSeconds = 1 // changes that have happened are delivered immediately
	streamSeconds  = 10
	// probeTimeout limits a probe that gets no answer.
	probeTimeout = 20 * time.Second
	// unusedName is valid, and names no object.
	unusedName = "kopf-watch-check"
)

// probe sends one request.
func (c *Checker) probe(ctx context.Context, kind probeKind, namespace, version string) probeResult {
	seen := c.sendProbe(ctx, kind, namespace, version)
	seen.probe = kind
	return seen
}

func (c *Checker) sendProbe(ctx context.Context, kind probeKind, namespace, version string) probeResult {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(c.GVK.GroupVersion().WithKind(c.GVK.Kind + "List"))
	options := &client.ListOptions{Namespace: namespace, Limit: 1}
	switch kind {
	case listProbe:
		return resultOfError(c.Client.List(ctx, list, options))
	case changesProbe:
		options.Raw = &metav1.ListOptions{ResourceVersion: version, TimeoutSeconds: new(int64(changesSeconds))}
	case streamProbe:
		options.Raw = &metav1.ListOptions{
			SendInitialEvents: new(true), ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan, AllowWatchBookmarks: true,
			FieldSelector: metav1.ObjectNameField + "=" + unusedName, TimeoutSeconds: new(int64(streamSeconds)),
		}
	}
	options.Limit = 0
	w, err := c.Client.Watch(ctx, list, options)
	if err != nil {
		return resultOfError(err)
	}
	defer w.Stop()
	select {
	case event, open := <-w.ResultChan():
		switch {
		case !open:
			return probeResult{unclear: ctx.Err() != nil}
		case event.Type == watch.Error:
			return resultOfError(apierrors.FromObject(event.Object))
		default:
			return probeResult{delivered: true}
		}
	case <-ctx.Done():
		return probeResult{}
	}
}

// observe interprets the error of a request.
func resultOfError(err error) probeResult {
	switch {
	case err == nil:
		return probeResult{}
	case apierrors.IsForbidden(err), apierrors.IsUnauthorized(err):
		return probeResult{reason: Forbidden, err: err}
	case apierrors.IsNotFound(err), meta.IsNoMatchError(err):
		return probeResult{reason: NotServed, err: err}
	case apierrors.IsResourceExpired(err), apierrors.IsGone(err):
		return probeResult{delivered: true} // there are changes after the version, but the API server does not keep them
	default:
		return probeResult{unclear: true}
	}
}
