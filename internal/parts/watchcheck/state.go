package watchcheck

import "time"

// silentIntervals is how many intervals it takes until a suspicious watch counts as silent. This is enough to repeat the suspicious probe.
const silentIntervals = 2

type probeResult struct {
	probe probeType
	// reason and err are set if the API server has rejected the probe.
	reason Reason
	err    error
	// unclear is true if the probe failed for some other reason, and makes the result ignored.
	unclear bool
	// delivered is true if the probe's stream has delivered an event.
	delivered bool
}

type watchState struct {
	reason Reason // Forbidden, NotServed or Rejected
	err    error
	since  time.Time // the time of the first probe with this reason

	// changesPending is true if the API server has changes after pendingVersion, which was the informer's version at the time of the probe.
	changesPending bool
	pendingVersion string
	// streamDelivered is true if some stream has delivered an event, so the API server supports the probe. streamSilent is true if the last
	// stream has nevertheless delivered nothing.
	streamSilent, streamDelivered bool

	// suspectSince is the time of the first probe that found one of these faults while the informer was at version. It is zero if the last
	// probe found no fault. confirmedAt is the time of the last probe.
	suspectSince, confirmedAt time.Time
	version                   string

	// undecodable names the objects that the informer can't decode. It is nil if the watch isn't suspicious.
	undecodable error

	logged Reason // the reason in the last log line
}

// update records a probe's result, and the informer's resource version before the probe.
func (s *watchState) update(now time.Time, version string, result probeResult) {
	if result.unclear {
		return
	}
	if result.reason != s.reason {
		s.since = now
	}
	s.reason, s.err = result.reason, result.err
	switch {
	case result.reason != "":
		s.changesPending, s.streamSilent = false, false
	case result.probe == changesProbe:
		s.changesPending, s.pendingVersion = result.delivered, version
	case result.probe == streamProbe:
		s.streamSilent = s.streamDelivered && !result.delivered
		s.streamDelivered = s.streamDelivered || result.delivered
	}
	switch suspicious := s.streamSilent || s.changesPending && s.pendingVersion == version; {
	case !suspicious:
		s.suspectSince = time.Time{}
	case s.suspectSince.IsZero() || s.version != version:
		s.suspectSince = now
	}
	s.version, s.confirmedAt = version, now
}

// diagnose returns why the watch delivers nothing, since when, and the error. The reason is empty if the watch is healthy.
func (s *watchState) diagnose(silentAfter time.Duration) (Reason, time.Time, error) {
	switch {
	case s.reason != "":
		return s.reason, s.since, s.err
	case s.suspectSince.IsZero():
		return "", time.Time{}, nil
	case s.undecodable != nil:
		return Undecodable, s.suspectSince, s.undecodable
	case s.confirmedAt.Sub(s.suspectSince) >= silentAfter:
		return Silent, s.suspectSince, nil
	}
	return "", time.Time{}, nil
}
