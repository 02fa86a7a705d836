jobs = []


class Job:
    minutes = property(lambda self: self)

    def do(self, job_func):
        jobs.append(job_func)


def every(interval=1):
    return Job()


def run_all():
    for job in jobs:
        job()
