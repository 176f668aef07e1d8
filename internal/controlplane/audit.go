package controlplane

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

// auditPolicy records write requests with their bodies. It leaves out requests that the server sends itself, and requests for leases,
// Events, tokens and access reviews.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived, ResponseStarted]
omitManagedFields: true
rules:
- level: None
  users: ["system:apiserver"]
- level: None
  resources:
  - {group: "", resources: [events, serviceaccounts/token]}
  - {group: events.k8s.io}
  - {group: coordination.k8s.io, resources: [leases]}
  - {group: authentication.k8s.io}
  - {group: authorization.k8s.io}
- level: Request
  verbs: [create, update, patch, delete, deletecollection]
- level: None
`

var auditFlags = []string{
	"audit-policy-file", "audit-log-path", "audit-log-mode", "audit-log-maxsize", "audit-log-format",
}

func (cp *ControlPlane) configureAudit(flags *envtest.Arguments) error {
	policy := cp.path("audit-policy.yaml")
	if err := os.WriteFile(policy, []byte(auditPolicy), 0o600); err != nil {
		return err
	}
	flags.Set("audit-policy-file", policy).
		Set("audit-log-path", cp.path("audit.log")).
		Set("audit-log-mode", "blocking").
		Set("audit-log-format", "json").
		Set("audit-log-maxsize", "1000000") // megabytes, so many that the log is never rotated
	return nil
}

// auditSize returns the size of the audit log, or 0 if it doesn't exist yet.
func (cp *ControlPlane) auditSize() (int64, error) {
	info, err := os.Stat(cp.path("audit.log"))
	if errors.Is(err, os.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

// A Request is a completed write request from the audit log.
type Request struct {
	Time        time.Time // when the request arrived
	Verb        string    // create, update, patch, delete or deletecollection
	User        string
	UserAgent   string
	URI         string // includes the query, such as fieldManager and dryRun
	Group       string // empty for the core group
	Resource    string // plural name
	Subresource string
	Namespace   string
	Name        string // the object's name; empty if the server generates it from generateName
	Code        int    // the response's status code
	// Body is the object without its managedFields, the patch, or the delete options. It is nil if the request had no body.
	Body json.RawMessage
}

// An AuditTail reads new entries of the audit log. Only one goroutine at a time may use it.
type AuditTail struct {
	cp     *ControlPlane
	offset int64
}

// AuditSinceStart returns a tail that starts with the first write request after Start. It requires Options.Audit. Requests that the server
// sends itself, and requests for leases, Events, tokens and access reviews are not logged.
func (cp *ControlPlane) AuditSinceStart() *AuditTail {
	return &AuditTail{cp: cp, offset: cp.auditStart}
}

// Next returns the requests since the last call, in the order in which they completed. The server records a request before it completes the
// response, so the client can't be faster. Requests with responses above 4 KiB are an exception: they may be recorded a moment later.
func (t *AuditTail) Next() ([]Request, error) {
	if !t.cp.audited {
		return nil, errors.New("control plane: the audit log is disabled: set Options{Audit: true}")
	}
	file, err := os.Open(t.cp.path("audit.log"))
	if errors.Is(err, os.ErrNotExist) {
		if _, err := os.Stat(t.cp.dir); err != nil {
			return nil, fmt.Errorf("control plane: the audit log was removed by Stop: call Next before it: %w", err)
		}
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("control plane: audit log: %w", err)
	}
	defer file.Close()
	if _, err := file.Seek(t.offset, io.SeekStart); err != nil {
		return nil, fmt.Errorf("control plane: audit log: %w", err)
	}
	text, err := io.ReadAll(file)
	if err != nil {
		return nil, fmt.Errorf("control plane: audit log: %w", err)
	}
	text = text[:bytes.LastIndexByte(text, '\n')+1] // the last line may be incomplete
	var requests []Request
	for line := range bytes.Lines(text) {
		request, err := parseAudit(line)
		if err != nil {
			return nil, fmt.Errorf("control plane: parse the audit log "+
				"(after an update of kube-apiserver, adapt internal/controlplane): %w: %.500s", err, line)
		}
		requests = append(requests, request)
	}
	t.offset += int64(len(text))
	return requests, nil
}

func parseAudit(line []byte) (Request, error) {
	var event struct {
		RequestReceivedTimestamp time.Time
		Verb                     string
		User                     struct{ Username string }
		UserAgent                string
		RequestURI               string
		ObjectRef                struct{ APIGroup, Resource, Subresource, Namespace, Name string }
		ResponseStatus           struct{ Code int }
		RequestObject            json.RawMessage
	}
	if err := json.Unmarshal(line, &event); err != nil {
		return Request{}, err
	}
	return Request{
		Time:        event.RequestReceivedTimestamp,
		Verb:        event.Verb,
		User:        event.User.Username,
		UserAgent:   event.UserAgent,
		URI:         event.RequestURI,
		Group:       event.ObjectRef.APIGroup,
		Resource:    event.ObjectRef.Resource,
		Subresource: event.ObjectRef.Subresource,
		Namespace:   event.ObjectRef.Namespace,
		Name:        event.ObjectRef.Name,
		Code:        event.ResponseStatus.Code,
		Body:        event.RequestObject,
	}, nil
}
