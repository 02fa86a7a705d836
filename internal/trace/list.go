// SPDX-License-Identifier: Apache-2.0

package trace

// links holds the neighbors of an open trace in one list.
type links struct{ prev, next *openTrace }

// list is an intrusive doubly linked list of open traces. Operations do not allocate, and removal takes constant
// time.
type list struct {
	of          func(*openTrace) *links
	front, back *openTrace
}

func (l *list) pushBack(t *openTrace) {
	n := l.of(t)
	n.prev, n.next = l.back, nil
	if l.back == nil {
		l.front = t
	} else {
		l.of(l.back).next = t
	}
	l.back = t
}

// insertAfter inserts t after at, or at the front if at is nil.
func (l *list) insertAfter(at, t *openTrace) {
	next := l.front
	if at != nil {
		next = l.of(at).next
	}
	if next == nil {
		l.pushBack(t)
		return
	}
	n := l.of(t)
	n.prev, n.next = at, next
	l.of(next).prev = t
	if at == nil {
		l.front = t
	} else {
		l.of(at).next = t
	}
}

func (l *list) remove(t *openTrace) {
	n := l.of(t)
	if n.prev == nil {
		l.front = n.next
	} else {
		l.of(n.prev).next = n.next
	}
	if n.next == nil {
		l.back = n.prev
	} else {
		l.of(n.next).prev = n.prev
	}
	*n = links{}
}

func (l *list) moveToBack(t *openTrace) {
	if l.back == t {
		return
	}
	l.remove(t)
	l.pushBack(t)
}
