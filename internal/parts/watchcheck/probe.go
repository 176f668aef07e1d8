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

// probeType says which request a probe sends.
type probeType int

const (
	// listProbe lists one object. It is used before the informer has a resource version.
	listProbe probeType = iota
	// changesProbe watches from the informer's resource version, so it delivers the changes after that version. If the informer's version
	// then stays the same, it has missed them.
	changesProbe
	// streamProbe watches an unused name with the initial listing. An API server with streaming lists finishes the listing with a bookmark,
	// so the probe then delivers an event unless a proxy holds back streams.
	streamProbe
)

const (
	changesSeconds = 1 // the API server delivers earlier changes immediately
	streamSeconds  = 10
	// probeTimeout limits how long a probe waits for a response.
	probeTimeout = 20 * time.Second
	// unusedName is a valid name that no object has.
	unusedName = "kopf-watch-check"
)

func (c *Checker) probe(ctx context.Context, kind probeType, namespace, version string) probeResult {
	result := c.sendProbe(ctx, kind, namespace, version)
	result.probe = kind
	return result
}

func (c *Checker) sendProbe(ctx context.Context, kind probeType, namespace, version string) probeResult {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(c.GVK.GroupVersion().WithKind(c.GVK.Kind + "List"))
	options := &client.ListOptions{}
	if c.Selector != nil {
		*options = *c.Selector
	}
	options.Namespace, options.Limit = namespace, 1
	switch kind {
	case listProbe:
		err := c.Client.List(ctx, list, options)
		if c.Selector != nil && apierrors.IsBadRequest(err) {
			return probeResult{reason: Rejected, err: err}
		}
		return resultOfError(err)
	case changesProbe:
		options.Raw = &metav1.ListOptions{ResourceVersion: version, TimeoutSeconds: new(int64(changesSeconds))}
	case streamProbe:
		options.FieldSelector = nil
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

// resultOfError converts a request's error to a result.
func resultOfError(err error) probeResult {
	switch {
	case err == nil:
		return probeResult{}
	case apierrors.IsForbidden(err), apierrors.IsUnauthorized(err):
		return probeResult{reason: Forbidden, err: err}
	case apierrors.IsNotFound(err), meta.IsNoMatchError(err):
		return probeResult{reason: NotServed, err: err}
	case apierrors.IsResourceExpired(err), apierrors.IsGone(err):
		return probeResult{delivered: true} // the API server no longer has the changes after this version
	default:
		return probeResult{unclear: true}
	}
}
