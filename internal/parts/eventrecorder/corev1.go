package eventrecorder

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kopf-runtime/kopf-runtime/internal/rbac"
)

// ReporterIdentity identifies the operator in its Events.
type ReporterIdentity struct {
	// Component is the reporting controller, Instance the process.
	Component, Instance string
	// Prefix is put in front of the generated names of Events.
	Prefix string
}

const (
	queueLength = 1000
	postTimeout = 10 * time.Second
	// drainTimeout limits how long queued Events are still posted when the operator stops.
	drainTimeout = 2 * time.Second
	// kopfAction is the action in all of kopf's Events.
	kopfAction = "Action?"
)

// CoreV1Recorder posts Events to the core v1 API, in kopf's form. It posts them one by one in the background, from a queue of limited
// length.
type CoreV1Recorder struct {
	reporter ReporterIdentity
	client   corev1client.EventsGetter
	queue    chan *corev1.Event
}

var _ events.EventRecorder = (*CoreV1Recorder)(nil)

// NewCoreV1Recorder returns a recorder that queues Events until [CoreV1Recorder.Run] posts them.
func NewCoreV1Recorder(client corev1client.EventsGetter, reporter ReporterIdentity) *CoreV1Recorder {
	return &CoreV1Recorder{reporter: reporter, client: client, queue: make(chan *corev1.Event, queueLength)}
}

// Eventf queues an Event about an object, whose kind must be set. It doesn't block: if the queue is full, the Event is dropped and logged.
func (c *CoreV1Recorder) Eventf(regarding, _ runtime.Object, eventType, reason, _, note string, args ...any) {
	obj, ok := regarding.(client.Object)
	if !ok {
		return
	}
	select {
	case c.queue <- c.event(obj, eventType, reason, fmt.Sprintf(note, args...)):
	default:
		log.Log.Info("Failed to post an Event; too many Events are waiting", "reason", reason, "namespace", obj.GetNamespace(), "name", obj.GetName())
	}
}

func (c *CoreV1Recorder) event(obj client.Object, eventType, reason, message string) *corev1.Event {
	namespace := obj.GetNamespace()
	if namespace == "" {
		namespace = metav1.NamespaceDefault
	}
	now := time.Now()
	gvk := obj.GetObjectKind().GroupVersionKind()
	return &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, GenerateName: c.reporter.Prefix},
		InvolvedObject: corev1.ObjectReference{
			APIVersion: gvk.GroupVersion().String(), Kind: gvk.Kind, Namespace: namespace, Name: obj.GetName(), UID: obj.GetUID(),
		},
		Type: eventType, Reason: reason, Message: message, Action: kopfAction,
		ReportingController: c.reporter.Component, ReportingInstance: c.reporter.Instance, Source: corev1.EventSource{Component: c.reporter.Component},
		FirstTimestamp: metav1.NewTime(now), LastTimestamp: metav1.NewTime(now), EventTime: metav1.NewMicroTime(now),
	}
}

// Run posts Events until the context is cancelled, and then queued ones for at most two seconds. Failures are logged.
func (c *CoreV1Recorder) Run(ctx context.Context) {
	for {
		select {
		case event := <-c.queue:
			c.post(context.WithoutCancel(ctx), event) // cancelling ctx must not abort a running request
		case <-ctx.Done():
			c.drain(context.WithoutCancel(ctx))
			return
		}
	}
}

func (c *CoreV1Recorder) drain(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, drainTimeout)
	defer cancel()
	for ctx.Err() == nil {
		select {
		case event := <-c.queue:
			c.post(ctx, event)
		default:
			return
		}
	}
}

func (c *CoreV1Recorder) post(ctx context.Context, event *corev1.Event) {
	ctx, cancel := context.WithTimeout(ctx, postTimeout)
	defer cancel()
	if _, err := c.client.Events(event.Namespace).Create(ctx, event, metav1.CreateOptions{}); err != nil {
		log.FromContext(ctx).Info("Failed to post an Event", "error", rbac.Explain(err).Error(),
			"reason", event.Reason, "namespace", event.Namespace, "name", event.InvolvedObject.Name)
	}
}
